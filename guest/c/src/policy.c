/* The exports of the component, and the parts of a review: the request, the user, the fields that an UPDATE touches. */
#include "internal.h"

#include <string.h>

/* Answers that are computed once: unknown, no, yes. */
enum { UNKNOWN, NO, YES };

struct opgate_settings_errors {
  wit_list_settings_error_t list;
  size_t room;
};

void opgate_log(opgate_severity severity, opgate_text line) {
  wit_string_t text = opgate_to_wit(line);
  opgate_policy_log_log((uint8_t)severity, &text);
}

#define REQUEST(review) ((opgate_policy_request_borrow_request_t){(review)->request})

opgate_text opgate_request_uid(const opgate_review *review) {
  wit_string_t text;
  opgate_policy_request_method_request_uid(REQUEST(review), &text);
  return opgate_of_wit(text);
}

opgate_text opgate_request_name(const opgate_review *review) {
  wit_string_t text;
  opgate_policy_request_method_request_name(REQUEST(review), &text);
  return opgate_of_wit(text);
}

opgate_text opgate_namespace(const opgate_review *review) {
  wit_string_t text;
  opgate_policy_request_method_request_namespace(REQUEST(review), &text);
  return opgate_of_wit(text);
}

opgate_text opgate_sub_resource(const opgate_review *review) {
  wit_string_t text;
  opgate_policy_request_method_request_sub_resource(REQUEST(review), &text);
  return opgate_of_wit(text);
}

opgate_resource opgate_resource_of(const opgate_review *review) {
  opgate_policy_request_group_version_resource_t of;
  opgate_policy_request_method_request_resource(REQUEST(review), &of);
  return (opgate_resource){opgate_of_wit(of.group), opgate_of_wit(of.version), opgate_of_wit(of.resource)};
}

opgate_resource opgate_kind_of(const opgate_review *review) {
  opgate_policy_request_group_version_kind_t of;
  opgate_policy_request_method_request_kind(REQUEST(review), &of);
  return (opgate_resource){opgate_of_wit(of.group), opgate_of_wit(of.version), opgate_of_wit(of.kind)};
}

opgate_user opgate_user_of(const opgate_review *review) {
  opgate_policy_request_user_info_t user;
  opgate_policy_request_method_request_user(REQUEST(review), &user);
  return (opgate_user){
      opgate_of_wit(user.username),
      opgate_of_wit(user.uid),
      {(opgate_text *)user.groups.ptr, user.groups.len},
  };
}

bool opgate_wants_fixes(const opgate_review *review) {
  return opgate_policy_request_method_request_wants_fixes(REQUEST(review));
}

bool opgate_is_dry_run(const opgate_review *review) {
  return opgate_policy_request_method_request_dry_run(REQUEST(review));
}

static bool is_exempt(const opgate_review *review) {
  if (!opgate_has(review->settings, "/exempt")) {
    return false;
  }
  opgate_user user = opgate_user_of(review);
  opgate_texts users = opgate_texts_at(review->settings, "/exempt/users");
  for (size_t i = 0; i < users.len; i++) {
    if (opgate_text_equal(users.ptr[i], user.username)) {
      return true;
    }
  }
  opgate_texts groups = opgate_texts_at(review->settings, "/exempt/groups");
  for (size_t i = 0; i < groups.len; i++) {
    for (size_t k = 0; k < user.groups.len; k++) {
      if (opgate_text_equal(groups.ptr[i], user.groups.ptr[k])) {
        return true;
      }
    }
  }
  return false;
}

bool opgate_is_exempt(opgate_review *review) {
  if (review->exempt == UNKNOWN) {
    review->exempt = is_exempt(review) ? YES : NO;
  }
  return review->exempt == YES;
}

opgate_document opgate_ratchet_base(opgate_review *review) {
  if (review->operation != OPGATE_UPDATE || !opgate_exists(review->object) || !opgate_exists(review->old)) {
    return (opgate_document){0};
  }
  if (review->ratchets == UNKNOWN) {
    bool is_on = true;
    opgate_boolean_at(review->settings, "/ratcheting", &is_on);
    review->ratchets = is_on || opgate_has(review->object, "/metadata/deletionTimestamp") ? YES : NO;
  }
  return review->ratchets == YES ? review->old : (opgate_document){0};
}

bool opgate_touches(opgate_review *review, const char *pointer) {
  opgate_document old = opgate_ratchet_base(review);
  return !opgate_exists(old) || !opgate_equal(review->object, pointer, old, pointer);
}

void opgate_settings_error(opgate_settings_errors *errors, opgate_text pointer, opgate_text message) {
  errors->list.ptr = opgate_grow(errors->list.ptr, errors->list.len, &errors->room, sizeof *errors->list.ptr);
  errors->list.ptr[errors->list.len].pointer = opgate_to_wit(pointer);
  errors->list.ptr[errors->list.len++].message = opgate_to_wit(message);
}

void exports_wit_describe(wit_descriptor_t *descriptor) {
  opgate_describe(&OPGATE_POLICY, descriptor);
}

bool exports_wit_validate_settings(wit_borrow_document_t settings, wit_list_settings_error_t *list) {
  opgate_settings_errors errors = {{NULL, 0}, 0};
  if (OPGATE_POLICY.check_settings != NULL) {
    OPGATE_POLICY.check_settings((opgate_document){settings.__handle, NULL}, &errors);
  }
  *list = errors.list;
  return errors.list.len == 0;
}

void exports_wit_validate(wit_operation_t operation, uint64_t routes, wit_borrow_request_t request, wit_borrow_document_t *object,
                          wit_borrow_document_t *old, wit_borrow_document_t settings, wit_verdict_t *verdict) {
  opgate_operation of = (opgate_operation)(1u << operation);
  opgate_review review = {
      .operation = of,
      .request = request.__handle,
      .object = {object == NULL || of == OPGATE_DELETE ? 0 : object->__handle, NULL},
      .old = {old == NULL ? 0 : old->__handle, NULL},
      .settings = {settings.__handle, NULL},
  };
  opgate_report *report = opgate_report_new(&review);
  for (size_t i = 0; i < 64 && OPGATE_POLICY.routes[i].on != NULL; i++) {
    if ((routes >> i & 1) != 0) {
      OPGATE_POLICY.routes[i].evaluate(&review, report);
    }
  }
  opgate_finish(report, verdict);
}
