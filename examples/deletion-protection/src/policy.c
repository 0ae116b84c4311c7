/*
 * Policy deletion-protection: protected objects are not deleted by mistake.
 *
 *   DELETE ─▶ is the old object protected? ──────────────▶ DEL-1
 *          ─▶ Namespace: protected claims in it ─────────▶ DEL-2
 *   UPDATE ─▶ was it protected, and no longer? by whom? ─▶ DEL-3
 */
#include <opgate.h>

/* The documentation of the rules: `opgate rules explain DEL-1` prints it. */
OPGATE_DOCS("rules.md");

/* Clients can also change labels and annotations through sub-resources. */
static const opgate_target NAMESPACE = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("namespaces", "namespaces/status", "namespaces/finalize"),
    .kind = "Namespace",
};

static const opgate_target CLAIM = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("persistentvolumeclaims", "persistentvolumeclaims/status"),
    .kind = "PersistentVolumeClaim",
};

static const opgate_read CLAIMS = {
    .version = "v1",
    .resource = "persistentvolumeclaims",
    .fields = OPGATE_LIST("/metadata/annotations"),
};

static const opgate_rule DEL_1 = {
    .id = "DEL-1",
    .name = "keep-protected-objects",
    .title = "a protected object is not deleted",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&NAMESPACE, OPGATE_DELETE}, {&CLAIM, OPGATE_DELETE}),
    .sources = OPGATE_LIST("house rules, section 1"),
};

static const opgate_rule DEL_2 = {
    .id = "DEL-2",
    .name = "keep-namespaces-with-protected-claims",
    .title = "a Namespace with protected claims is not deleted",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&NAMESPACE, OPGATE_DELETE}),
    .reads = OPGATE_READS(&CLAIMS),
    .sources = OPGATE_LIST("house rules, section 1"),
};

static const opgate_rule DEL_3 = {
    .id = "DEL-3",
    .name = "authorized-protection-removal",
    .title = "only authorized users remove the protection",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&NAMESPACE, OPGATE_UPDATE}, {&CLAIM, OPGATE_UPDATE}),
    .sources = OPGATE_LIST("house rules, section 2"),
};

/* The fields that can protect an object. */
typedef struct protection {
  const char *one;
  const char *list;
  const char *pointer;
} protection;

static const protection PROTECTIONS[] = {
    {"label", "labels", "/metadata/labels"},
    {"annotation", "annotations", "/metadata/annotations"},
};

static opgate_text key_of(const opgate_review *review) {
  opgate_text key = opgate_text_at(review->settings, "/key");
  return key.len > 0 ? key : OPGATE_TEXT("opgate.dev/protected");
}

/* The label or annotation that protects an object; NULL if none does. A misspelled value protects, too. */
static const protection *protection_of(opgate_document object, opgate_text key) {
  for (size_t i = 0; i < 2; i++) {
    opgate_document member = opgate_member_at(object, PROTECTIONS[i].pointer, key);
    if (!opgate_exists(member)) {
      continue;
    }
    opgate_text value = opgate_text_at(member, "");
    opgate_release(member);
    if (value.ptr != NULL && !opgate_text_equal(value, OPGATE_TEXT("false"))) {
      return &PROTECTIONS[i];
    }
  }
  return NULL;
}

static opgate_text field(const protection *protection, opgate_text key) {
  return opgate_format("metadata.%s[%.*s]", protection->list, OPGATE_ARG(key));
}

static opgate_text name_of(const opgate_review *review, opgate_document object) {
  opgate_text name = opgate_text_at(object, "/metadata/name");
  return name.ptr != NULL ? name : opgate_request_name(review);
}

static bool has(opgate_texts list, opgate_text text) {
  for (size_t i = 0; i < list.len; i++) {
    if (opgate_text_equal(list.ptr[i], text)) {
      return true;
    }
  }
  return false;
}

static bool may_unprotect(const opgate_review *review) {
  if (!opgate_has(review->settings, "/unprotect")) {
    return false;
  }
  opgate_user user = opgate_user_of(review);
  if (has(opgate_texts_at(review->settings, "/unprotect/users"), user.username)) {
    return true;
  }
  opgate_texts groups = opgate_texts_at(review->settings, "/unprotect/groups");
  for (size_t i = 0; i < groups.len; i++) {
    if (has(user.groups, groups.ptr[i])) {
      return true;
    }
  }
  return false;
}

static void evaluate(opgate_review *review, opgate_report *report, const char *kind) {
  if (!opgate_exists(review->old)) {
    return;
  }
  opgate_text key = key_of(review);
  const protection *found = protection_of(review->old, key);
  if (found == NULL) {
    return;
  }
  if (review->operation == OPGATE_DELETE) {
    opgate_text name = name_of(review, review->old);
    opgate_add(report, &DEL_1, field(found, key),
               opgate_format("%s \"%.*s\" is protected: ask an authorized user to remove the %s %.*s first", kind,
                             OPGATE_ARG(name), found->one, OPGATE_ARG(key)));
  } else if (review->operation == OPGATE_UPDATE && opgate_exists(review->object) &&
             protection_of(review->object, key) == NULL && !may_unprotect(review)) {
    opgate_add(report, &DEL_3, field(found, key),
               opgate_format("the %s %.*s protects the %s, and you cannot remove it: ask an authorized user", found->one,
                             OPGATE_ARG(key), kind));
  }
}

static void evaluate_claim(opgate_review *review, opgate_report *report) {
  evaluate(review, report, "PersistentVolumeClaim");
}

/* The protected claims of a Namespace. */
typedef struct claims {
  opgate_text key;
  opgate_text first;
  opgate_text last;
  size_t count;
} claims;

static bool visit(void *context, opgate_document claim) {
  claims *claims = context;
  if (protection_of(claim, claims->key) == NULL) {
    return true;
  }
  opgate_text name = opgate_text_at(claim, "/metadata/name");
  /* While another request is pending, a list may have a claim twice: stored and changed. */
  if (claims->count > 0 && opgate_text_equal(claims->last, name)) {
    return true;
  }
  if (claims->count == 0) {
    claims->first = name;
  }
  claims->last = name;
  claims->count++;
  return true;
}

static void evaluate_namespace(opgate_review *review, opgate_report *report) {
  evaluate(review, report, "Namespace");
  if (review->operation != OPGATE_DELETE || !opgate_exists(review->old) || !opgate_is_on(report, &DEL_2)) {
    return;
  }
  claims found = {.key = key_of(review)};
  opgate_query query = {.namespace_ = name_of(review, review->old)};
  opgate_answer answer = opgate_each(&CLAIMS, &query, visit, &found);
  if (!opgate_or_skip(report, OPGATE_RULES(&DEL_2), "PersistentVolumeClaims", answer) || found.count == 0) {
    return;
  }
  opgate_text more = found.count > 1 ? opgate_format(" and %zu more", found.count - 1) : OPGATE_TEXT("");
  opgate_add(report, &DEL_2, OPGATE_TEXT(""),
             opgate_format("the Namespace has the protected PersistentVolumeClaim \"%.*s\"%.*s: move or unprotect it first",
                           OPGATE_ARG(found.first), OPGATE_ARG(more)));
}

const opgate_policy OPGATE_POLICY = {
    .name = "deletion-protection",
    .version = "1.0.0",
    .title = "protected objects are not deleted by mistake",
    .rules = OPGATE_RULES(&DEL_1, &DEL_2, &DEL_3),
    .routes = OPGATE_ROUTES({&NAMESPACE, evaluate_namespace}, {&CLAIM, evaluate_claim}),
    .settings = "{\"key\": {"
                "\"description\": \"The label or annotation that protects an object, with any value but false. "
                "opgate.dev/protected unless set.\","
                "\"type\": \"string\"},"
                "\"unprotect\": {"
                "\"description\": \"Users and groups that can remove the protection. Empty unless set.\","
                "\"type\": \"object\","
                "\"properties\": {"
                "\"users\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}},"
                "\"groups\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}},"
                "\"additionalProperties\": false}}",
};
