/* A policy that ends its calls in every way that a policy in C can, by the name of the object. */
#include <opgate.h>
#include <string.h>

static const opgate_target MAP = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("configmaps"),
    .kind = "ConfigMap",
};

static const opgate_read GROUPS = {
    .group = "operators.coreos.com",
    .version = "v1",
    .resource = "operatorgroups",
    .fields = OPGATE_LIST("/spec/targetNamespaces", "/status/*/name"),
    .keys = OPGATE_LIST("/data"),
};

static const opgate_rule T_1 = {
    .id = "T-1",
    .title = "nothing goes wrong",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&MAP, OPGATE_CREATE}),
    .reads = OPGATE_READS(&GROUPS),
};

static int deeper(int depth) {
  volatile char room[1024];
  room[0] = (char)depth;
  return depth == 0 ? room[0] : deeper(depth + 1) + room[0];
}

/* Reads of a cluster object. */
static void stored(opgate_text name, opgate_document group, opgate_report *report) {
  if (opgate_text_equal(name, OPGATE_TEXT("read-field"))) {
    opgate_has(group, "/spec/selector");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("read-part"))) {
    opgate_text_at(opgate_at(group, "/spec"), "/selector");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("read-column"))) {
    opgate_column_at(group, "/status", "/type");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("read-parts"))) {
    opgate_raw_at(group, "/spec");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("read-value"))) {
    opgate_text_at(group, "/data/key");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("read-declared"))) {
    opgate_text first = opgate_text_at(opgate_item_at(group, "/spec/targetNamespaces", 0), "");
    bool is_key = false;
    opgate_boolean_at(group, "/data/key", &is_key);
    opgate_texts names = opgate_column_at(group, "/status", "/name");
    opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("%.*s %s %zu", OPGATE_ARG(first), is_key ? "key" : "", names.len));
  }
}

/* Conversions of opgate_format. */
static opgate_text formatted(opgate_text name) {
  if (opgate_text_equal(name, OPGATE_TEXT("format-float"))) {
    return opgate_format("%.2f", 1.5);
  }
  if (opgate_text_equal(name, OPGATE_TEXT("format-long"))) {
    return opgate_format("%lld %llu %ld %jd %zd %hhd", INT64_MIN, UINT64_MAX, -2L, INTMAX_MAX, (ptrdiff_t)-3, (signed char)44);
  }
  if (opgate_text_equal(name, OPGATE_TEXT("format-base"))) {
    return opgate_format("%x %X %o %c %i%%", 255u, 0xABCu, 8u, 'z', INT32_MIN);
  }
  return opgate_format("[%5d|%-5d|%05d|%.3d|%*d|%6s|%-6s|%.2s]", 42, 42, -42, 7, 4, 1, "ab", "ab", "abcd");
}

static void evaluate(opgate_review *review, opgate_report *report) {
  opgate_text name = opgate_request_name(review);
  if (opgate_text_equal(name, OPGATE_TEXT("memory"))) {
    /* The violations so far are not a verdict. */
    opgate_add(report, &T_1, OPGATE_TEXT(""), OPGATE_TEXT("half a verdict"));
    for (;;) {
      opgate_allocate(1 << 20);
    }
  }
  if (opgate_text_equal(name, OPGATE_TEXT("too-much"))) {
    opgate_allocate(SIZE_MAX - 4);
  }
  if (opgate_text_equal(name, OPGATE_TEXT("fail"))) {
    opgate_fail("this is wrong");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("pointer"))) {
    opgate_text_at(review->object, "data");
  }
  if (opgate_text_has_prefix(name, OPGATE_TEXT("format"))) {
    opgate_add(report, &T_1, OPGATE_TEXT(""), formatted(name));
  }
  if (opgate_text_has_prefix(name, OPGATE_TEXT("read-"))) {
    opgate_document group;
    opgate_get(&GROUPS, OPGATE_TEXT("a"), OPGATE_TEXT("b"), &group);
    stored(name, group, report);
  }
  if (opgate_text_equal(name, OPGATE_TEXT("nothing"))) {
    opgate_text_at(opgate_at(review->object, "/no/such"), "/a");
  }
  if (opgate_text_equal(name, OPGATE_TEXT("stack"))) {
    deeper(1);
  }
  if (opgate_text_equal(name, OPGATE_TEXT("zero"))) {
    /* A zero byte ends no text. */
    opgate_text text = opgate_text_at(review->object, "/data/text");
    opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("%zu bytes, %s", text.len, opgate_contains(text, '@') ? "with an @" : "without"));
  }
  if (opgate_text_equal(name, OPGATE_TEXT("many"))) {
    for (unsigned i = 0; i < 1000; i++) {
      opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("violation %u", i));
    }
  }
}

const opgate_policy OPGATE_POLICY = {
    .name = "faults",
    .version = "1.0.0",
    .title = "ends in every way",
    .rules = OPGATE_RULES(&T_1),
    .routes = OPGATE_ROUTES({&MAP, evaluate}),
};
