/* Policy {{name}}: images of Pods have a digest and come from known registries. */
#include <opgate.h>

/* The documentation of the rules: `opgate rules explain IMG-1` prints it. */
OPGATE_DOCS("rules.md");

static const opgate_target POD = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("pods"),
    .kind = "Pod",
};

static const opgate_read NAMESPACES = {
    .version = "v1",
    .resource = "namespaces",
    .fields = OPGATE_LIST("/metadata/annotations"),
};

static const opgate_rule IMG_1 = {
    .id = "IMG-1",
    .name = "image-digest",
    .title = "the image of a container has a digest",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&POD, OPGATE_CREATE | OPGATE_UPDATE}),
    .sources = OPGATE_LIST("house rules, section 3"),
};

static const opgate_rule IMG_2 = {
    .id = "IMG-2",
    .name = "known-image-registry",
    .title = "the image of a container comes from a known registry",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&POD, OPGATE_CREATE | OPGATE_UPDATE}),
    .enabled_by = OPGATE_LIST("/registries"),
    .sources = OPGATE_LIST("house rules, section 4"),
};

static const opgate_rule IMG_3 = {
    .id = "IMG-3",
    .name = "namespace-image-registry",
    .title = "the image of a container comes from the registry of its namespace",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&POD, OPGATE_CREATE | OPGATE_UPDATE}),
    .reads = OPGATE_READS(&NAMESPACES),
    .sources = OPGATE_LIST("house rules, section 5"),
};

/* The values to compare images with, read for the first image that the request sets or changes. */
typedef struct known {
  bool is_read;
  opgate_texts registries;
  opgate_text namespace_;
  opgate_text own; /* the registry of the namespace; none if it has none */
} known;

static void read_known(opgate_review *review, opgate_report *report, known *known) {
  known->is_read = true;
  known->registries = opgate_texts_at(review->settings, "/registries");
  known->namespace_ = opgate_namespace(review);
  opgate_document found;
  opgate_answer answer = opgate_get(&NAMESPACES, OPGATE_TEXT(""), known->namespace_, &found);
  if (opgate_or_skip(report, OPGATE_RULES(&IMG_3), "Namespaces", answer) && opgate_exists(found)) {
    known->own = opgate_text_at(found, "/metadata/annotations/house.example~1registry");
  }
}

static bool is_from(opgate_text image, opgate_text registry) {
  return opgate_text_has_prefix(image, registry) && image.len > registry.len && image.ptr[registry.len] == '/';
}

static bool is_known(opgate_text image, opgate_texts registries) {
  for (size_t i = 0; i < registries.len; i++) {
    if (is_from(image, registries.ptr[i])) {
      return true;
    }
  }
  return false;
}

static void evaluate_image(opgate_report *report, const known *known, opgate_text field, opgate_text image) {
  if (!opgate_contains(image, '@')) {
    opgate_add(report, &IMG_1, field, opgate_format("%.*s has no digest", OPGATE_ARG(image)));
  }
  if (!is_known(image, known->registries)) {
    opgate_add(report, &IMG_2, field, opgate_format("%.*s is not from a known registry", OPGATE_ARG(image)));
  }
  if (known->own.ptr != NULL && !is_from(image, known->own)) {
    opgate_add(report, &IMG_3, field,
               opgate_format("%.*s is not from %.*s, as namespace %.*s demands", OPGATE_ARG(image), OPGATE_ARG(known->own),
                             OPGATE_ARG(known->namespace_)));
  }
}

static void evaluate(opgate_review *review, opgate_report *report) {
  static const char *const LISTS[] = {"initContainers", "containers"};
  known known = {0};
  if (!opgate_exists(review->object)) {
    return;
  }
  for (size_t list = 0; list < 2; list++) {
    /* One call of the host for all containers. */
    opgate_texts images = opgate_column_at(review->object, opgate_format("/spec/%s", LISTS[list]).ptr, "/image");
    for (size_t i = 0; i < images.len; i++) {
      if (images.ptr[i].ptr == NULL || !opgate_touches(review, opgate_format("/spec/%s/%zu/image", LISTS[list], i).ptr)) {
        continue;
      }
      if (!known.is_read) {
        read_known(review, report, &known);
      }
      evaluate_image(report, &known, opgate_format("spec.%s[%zu].image", LISTS[list], i), images.ptr[i]);
    }
  }
}

/* Checks beyond the schema. */
static void check(opgate_document settings, opgate_settings_errors *errors) {
  opgate_texts registries = opgate_texts_at(settings, "/registries");
  for (size_t i = 0; i < registries.len; i++) {
    if (opgate_text_has_suffix(registries.ptr[i], OPGATE_TEXT("/"))) {
      opgate_settings_error(errors, opgate_format("/registries/%zu", i), OPGATE_TEXT("remove the slash at the end"));
    }
  }
}

const opgate_policy OPGATE_POLICY = {
    .name = "{{name}}",
    .version = "1.0.0",
    .title = "images of Pods have a digest and come from known registries",
    .rules = OPGATE_RULES(&IMG_1, &IMG_2, &IMG_3),
    .routes = OPGATE_ROUTES({&POD, evaluate}),
    .settings = "{\"registries\": {"
                "\"description\": \"Registries, with or without a path, from which images may come.\","
                "\"type\": \"array\","
                "\"items\": {\"type\": \"string\"}}}",
    .check_settings = check,
};
