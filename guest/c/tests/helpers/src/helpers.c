/* T-1 evaluates the cases of guest/cases/helpers.json, its object: a violation for each that differs, and one with the number of those that
 * hold. T-2 has a violation with a fix of each kind. */
#include <opgate.h>

static const opgate_target MAP = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("configmaps"),
    .kind = "ConfigMap",
};

static const opgate_rule T_1 = {
    .id = "T-1",
    .title = "the helpers hold their cases",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&MAP, OPGATE_CREATE}),
};

static const opgate_rule T_2 = {
    .id = "T-2",
    .title = "an object is fixed",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&MAP, OPGATE_CREATE}),
};

/* A violation with a fix of every kind. */
static void add_fix(opgate_report *report) {
  opgate_fix *fix = opgate_fix_needs_review(OPGATE_TEXT("change every field"));
  opgate_fix_set(fix, OPGATE_TEXT("/metadata/labels/app"), opgate_json(OPGATE_TEXT("\"a\\\n")));
  opgate_fix_insert(fix, OPGATE_TEXT("/list/0"), OPGATE_TEXT("1"));
  opgate_fix_insert(fix, OPGATE_TEXT("/list/-"), OPGATE_TEXT("[3]"));
  opgate_fix_remove(fix, OPGATE_TEXT("/data/old"));
  opgate_fix_rename_key(fix, OPGATE_TEXT("/data/from"), OPGATE_TEXT("to"));
  opgate_add_with_fix(report, &T_2, OPGATE_TEXT("data"), OPGATE_TEXT("fix me"), fix);
}

typedef struct counts {
  opgate_report *report;
  size_t held;
} counts;

static void compare(counts *counts, opgate_document of, opgate_text found, opgate_text expected) {
  if (opgate_text_equal(found, expected)) {
    counts->held++;
    return;
  }
  opgate_text name = opgate_text_at(of, "/case");
  opgate_text message = opgate_format("%.*s differs: expected %.*s, found %.*s", OPGATE_ARG(name), OPGATE_ARG(expected), OPGATE_ARG(found));
  opgate_add(counts->report, &T_1, OPGATE_TEXT(""), message);
}

static opgate_text boolean_text(bool value) {
  return value ? OPGATE_TEXT("true") : OPGATE_TEXT("false");
}

static void selector_case(counts *counts, opgate_document of, opgate_selector selector) {
  opgate_text found = OPGATE_TEXT("none"), expected = OPGATE_TEXT("none");
  if (selector.status == OPGATE_INVALID_SELECTOR) {
    found = selector.error;
  } else if (selector.status == OPGATE_VALID_SELECTOR) {
    found = boolean_text(opgate_matches(of, "/labels", &selector));
  }
  bool matches;
  if (opgate_boolean_at(of, "/matches", &matches)) {
    expected = boolean_text(matches);
  } else if (opgate_has(of, "/error")) {
    expected = opgate_text_at(of, "/error");
  }
  compare(counts, of, found, expected);
}

/* The shape of a case: `scalar`, or an object with one member. */
static opgate_shape shape_of(opgate_document given) {
  if (opgate_kind_at(given, "") == OPGATE_STRING) {
    return (opgate_shape)OPGATE_SCALAR_SHAPE;
  }
  opgate_text name = opgate_keys_at(given, "").ptr[0];
  opgate_document inner = opgate_member_at(given, "", name);
  opgate_shape shape = {OPGATE_SHAPE_LIST, NULL, NULL};
  if (opgate_text_equal(name, OPGATE_TEXT("list"))) {
    opgate_shape *item = opgate_allocate(sizeof *item);
    *item = shape_of(inner);
    shape.item = item;
  } else {
    opgate_texts names = opgate_keys_at(inner, "");
    opgate_shape_field *fields = opgate_allocate((names.len + 1) * sizeof *fields);
    for (size_t i = 0; i < names.len; i++) {
      fields[i] = (opgate_shape_field){opgate_format("%.*s", OPGATE_ARG(names.ptr[i])).ptr, shape_of(opgate_member_at(inner, "", names.ptr[i]))};
    }
    shape.kind = opgate_text_equal(name, OPGATE_TEXT("struct")) ? OPGATE_SHAPE_STRUCT : OPGATE_SHAPE_POINTER;
    shape.fields = fields;
  }
  opgate_release(inner);
  return shape;
}

/* Both values at one pointer of two documents. */
static opgate_document side(opgate_document of, const char *pointer) {
  opgate_text value = opgate_raw_at(of, pointer);
  return opgate_parse(value.ptr == NULL ? OPGATE_TEXT("{}") : opgate_format("{\"value\":%.*s}", OPGATE_ARG(value)), NULL);
}

static void shape_case(counts *counts, opgate_document of) {
  bool expected = false;
  opgate_boolean_at(of, "/equal", &expected);
  opgate_document given = opgate_at(of, "/shape"), left = side(of, "/left"), right = side(of, "/right");
  opgate_shape shape = shape_of(given);
  bool found = opgate_shape_equal(&shape, left, right, "/value"), other = opgate_shape_equal(&shape, right, left, "/value");
  compare(counts, of, found == other ? boolean_text(found) : OPGATE_TEXT("one order"), boolean_text(expected));
  opgate_release(given);
  opgate_release(left);
  opgate_release(right);
}

static opgate_text described(opgate_text all, opgate_text name, opgate_text pointer, opgate_text field) {
  return opgate_format("%.*s%.*s %.*s %.*s\n", OPGATE_ARG(all), OPGATE_ARG(name), OPGATE_ARG(pointer), OPGATE_ARG(field));
}

static opgate_text expected_pods(opgate_document of) {
  opgate_text all = OPGATE_TEXT("");
  for (uint32_t i = 0; i < opgate_length_at(of, "/specs"); i++) {
    opgate_document spec = opgate_item_at(of, "/specs", i);
    all = described(all, opgate_text_at(spec, "/name"), opgate_text_at(spec, "/pointer"), opgate_text_at(spec, "/field"));
    for (uint32_t k = 0; k < opgate_length_at(spec, "/containers"); k++) {
      opgate_document container = opgate_item_at(spec, "/containers", k);
      all = described(all, opgate_text_at(container, "/image"), opgate_text_at(container, "/pointer"), opgate_text_at(container, "/field"));
      opgate_release(container);
    }
    opgate_release(spec);
  }
  return all;
}

static void pods_case(counts *counts, opgate_document of) {
  opgate_document object = opgate_at(of, "/object");
  opgate_text kind = opgate_text_at(of, "/kind"), all = OPGATE_TEXT("");
  bool is_csv = opgate_text_equal(kind, OPGATE_TEXT("ClusterServiceVersion"));
  opgate_pod_specs specs = is_csv ? opgate_pods_in_csv(object) : opgate_pods_in_object(object, kind);
  for (size_t i = 0; i < specs.len; i++) {
    const opgate_pod_spec *spec = &specs.ptr[i];
    all = described(all, spec->name, spec->pointer, spec->field);
    opgate_containers containers = opgate_containers_of(object, spec, "/image");
    for (size_t k = 0; k < containers.len; k++) {
      const opgate_container *container = &containers.ptr[k];
      all = described(all, container->value, opgate_container_pointer(container), opgate_container_field(container));
    }
  }
  compare(counts, of, all, expected_pods(of));
  opgate_release(object);
}

static void evaluate(opgate_review *review, opgate_report *report) {
  if (opgate_text_equal(opgate_request_name(review), OPGATE_TEXT("fix"))) {
    add_fix(report);
    return;
  }
  counts counts = {report, 0};
  const char *const lists[] = {"/selectors", "/mapSelectors", "/shapes", "/pods"};
  for (size_t list = 0; list < 4; list++) {
    uint32_t len = opgate_length_at(review->object, lists[list]);
    for (uint32_t i = 0; i < len; i++) {
      opgate_document of = opgate_item_at(review->object, lists[list], i);
      switch (list) {
      case 0:
        selector_case(&counts, of, opgate_selector_at(of, "/selector"));
        break;
      case 1:
        selector_case(&counts, of, opgate_map_selector_at(of, "/selector"));
        break;
      case 2:
        shape_case(&counts, of);
        break;
      default:
        pods_case(&counts, of);
      }
      opgate_release(of);
    }
  }
  opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("%zu cases hold", counts.held));
}

const opgate_policy OPGATE_POLICY = {
    .name = "helpers",
    .version = "1.0.0",
    .title = "holds the cases of the helpers",
    .rules = OPGATE_RULES(&T_1, &T_2),
    .routes = OPGATE_ROUTES({&MAP, evaluate}),
};
