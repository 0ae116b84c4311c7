/* Queries of cluster state. For a policy without queries nothing of this file is linked, so it does not import `cluster`. */
#include "internal.h"

/* Maximum sizes of pages and samples, see policy.wit. */
#define DOCUMENTS 256
#define NAMES 16384
#define MAX_SAMPLE_OBJECTS 500

typedef opgate_policy_cluster_read_error_t read_error;

static opgate_policy_types_group_version_resource_t resource_of(const opgate_read *read) {
  return (opgate_policy_types_group_version_resource_t){
      opgate_wit_of(read->group), opgate_wit_of(read->version), opgate_wit_of(read->resource)};
}

static opgate_answer answer_of(const char *resource, const read_error *error) {
  opgate_text text = opgate_of_wit(error->val.no_cluster);
  switch (error->tag) {
  case OPGATE_POLICY_CLUSTER_READ_ERROR_NO_CLUSTER:
    return (opgate_answer){OPGATE_NO_CLUSTER, text};
  case OPGATE_POLICY_CLUSTER_READ_ERROR_INVALID:
    return (opgate_answer){OPGATE_INVALID, text};
  case OPGATE_POLICY_CLUSTER_READ_ERROR_NOT_DECLARED:
    opgate_fail(opgate_format("%s: %.*s", resource, OPGATE_ARG(text)).ptr);
  default:
    return (opgate_answer){OPGATE_UNAVAILABLE, text};
  }
}

static const opgate_answer ANSWERED = {OPGATE_ANSWERED, {NULL, 0}};

opgate_answer opgate_get(const opgate_read *read, opgate_text namespace_, opgate_text name, opgate_document *found) {
  bool is_too_long = namespace_.len > OPGATE_MAX_NAME_BYTES || name.len > OPGATE_MAX_NAME_BYTES;
  wit_string_t in = is_too_long ? opgate_wit_of("") : opgate_to_wit(namespace_);
  wit_string_t of = is_too_long ? opgate_wit_of("") : opgate_to_wit(name);
  opgate_policy_cluster_group_version_resource_t resource = resource_of(read);
  opgate_policy_cluster_option_own_document_t object;
  read_error error;
  *found = (opgate_document){0};
  if (!opgate_policy_cluster_get(&resource, &in, &of, &object, &error)) {
    return answer_of(read->resource, &error);
  }
  if (object.is_some) {
    *found = (opgate_document){object.val.__handle, opgate_whole_of(read)};
  }
  return ANSWERED;
}

static opgate_policy_cluster_query_t query_of(const opgate_query *query, uint32_t limit) {
  opgate_query none = {0};
  query = query == NULL ? &none : query;
  opgate_text namespace_ = query->namespace_.len > OPGATE_MAX_NAME_BYTES ? OPGATE_TEXT("") : query->namespace_;
  opgate_policy_cluster_list_index_match_t matches = {
      opgate_array(query->matches_len, sizeof *matches.ptr), query->matches_len};
  for (size_t i = 0; i < matches.len; i++) {
    const opgate_index_match *match = &query->matches[i];
    matches.ptr[i].index = opgate_wit_of(match->index);
    matches.ptr[i].values = (wit_list_string_t){(wit_string_t *)match->values.ptr, match->values.len};
    matches.ptr[i].include_missing = match->include_missing;
  }
  return (opgate_policy_cluster_query_t){
      .namespace_ = {query->namespace_.ptr != NULL, opgate_to_wit(namespace_)},
      .label_selector = {query->label_selector.ptr != NULL, opgate_to_wit(query->label_selector)},
      .matches = matches,
      .limit = limit,
  };
}

static wit_string_t name_at(opgate_document document, const char *pointer) {
  opgate_text text = opgate_text_at(document, pointer);
  return text.ptr == NULL ? opgate_wit_of("") : opgate_to_wit(text);
}

opgate_answer opgate_each(const opgate_read *read, const opgate_query *query, bool (*visit)(void *context, opgate_document object),
                          void *context) {
  opgate_policy_cluster_group_version_resource_t resource = resource_of(read);
  opgate_policy_cluster_query_t request = query_of(query, DOCUMENTS);
  const opgate_part *part = opgate_whole_of(read);
  for (;;) {
    opgate_policy_cluster_list_own_document_t page;
    read_error error;
    if (!opgate_policy_cluster_list(&resource, &request, &page, &error)) {
      return answer_of(read->resource, &error);
    }
    bool wants_more = true;
    for (size_t i = 0; i < page.len; i++) {
      opgate_document object = {page.ptr[i].__handle, part};
      if (i + 1 == page.len && page.len >= DOCUMENTS) {
        request.after.is_some = true;
        request.after.val.namespace_ = name_at(object, "/metadata/namespace");
        request.after.val.name = name_at(object, "/metadata/name");
      }
      wants_more = wants_more && visit(context, object);
      opgate_release(object);
    }
    if (!wants_more || page.len < DOCUMENTS) {
      return ANSWERED;
    }
  }
}

opgate_answer opgate_names_of(const opgate_read *read, const opgate_query *query, opgate_object_names *found) {
  opgate_policy_cluster_group_version_resource_t resource = resource_of(read);
  opgate_policy_cluster_query_t request = query_of(query, NAMES);
  size_t room = 0;
  *found = (opgate_object_names){NULL, 0};
  for (;;) {
    opgate_policy_cluster_list_object_name_t page;
    read_error error;
    if (!opgate_policy_cluster_names(&resource, &request, &page, &error)) {
      return answer_of(read->resource, &error);
    }
    for (size_t i = 0; i < page.len; i++) {
      found->ptr = opgate_grow(found->ptr, found->len, &room, sizeof *found->ptr);
      found->ptr[found->len++] = (opgate_object_name){opgate_of_wit(page.ptr[i].namespace_), opgate_of_wit(page.ptr[i].name)};
    }
    if (page.len < NAMES) {
      return ANSWERED;
    }
    request.after.is_some = true;
    request.after.val = page.ptr[page.len - 1];
  }
}

opgate_answer opgate_sample(opgate_resource of, uint32_t limit, opgate_documents *found) {
  *found = (opgate_documents){NULL, 0, true};
  if (of.group.len > OPGATE_MAX_NAME_BYTES || of.version.len > OPGATE_MAX_NAME_BYTES || of.resource.len > OPGATE_MAX_NAME_BYTES) {
    return ANSWERED;
  }
  opgate_policy_cluster_group_version_resource_t resource = {
      opgate_to_wit(of.group), opgate_to_wit(of.version), opgate_to_wit(of.resource)};
  opgate_policy_cluster_sample_result_t sampled;
  read_error error;
  uint32_t clamped = limit == 0 ? 1 : limit > MAX_SAMPLE_OBJECTS ? MAX_SAMPLE_OBJECTS : limit;
  if (!opgate_policy_cluster_sample(&resource, clamped, &sampled, &error)) {
    opgate_answer answer = answer_of("a sample", &error);
    if (answer.status == OPGATE_NO_CLUSTER) {
      answer.reason = OPGATE_TEXT("the cluster's custom resources are not available");
    }
    return answer;
  }
  found->ptr = opgate_array(sampled.objects.len, sizeof *found->ptr);
  for (size_t i = 0; i < sampled.objects.len; i++) {
    found->ptr[found->len++] = (opgate_document){sampled.objects.ptr[i].__handle, NULL};
  }
  found->complete = sampled.complete;
  return ANSWERED;
}
