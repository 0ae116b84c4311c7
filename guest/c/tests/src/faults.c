/* A policy that ends its calls in every way that a policy in C can, by the name of the object. */
#include <opgate.h>
#include <string.h>

static const opgate_target MAP = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("configmaps"),
    .kind = "ConfigMap",
};

static const opgate_rule T_1 = {
    .id = "T-1",
    .title = "nothing goes wrong",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&MAP, OPGATE_CREATE}),
};

static int deeper(int depth) {
  volatile char room[1024];
  room[0] = (char)depth;
  return depth == 0 ? room[0] : deeper(depth + 1) + room[0];
}

static void judge(opgate_review *review, opgate_report *report) {
  opgate_text name = opgate_request_name(review);
  if (opgate_same(name, OPGATE_TEXT("memory"))) {
    /* Findings so far are not an answer. */
    opgate_add(report, &T_1, OPGATE_TEXT(""), OPGATE_TEXT("half an answer"));
    for (;;) {
      opgate_allocate(1 << 20);
    }
  }
  if (opgate_same(name, OPGATE_TEXT("too-much"))) {
    opgate_allocate(SIZE_MAX - 4);
  }
  if (opgate_same(name, OPGATE_TEXT("fail"))) {
    opgate_fail("this is wrong");
  }
  if (opgate_same(name, OPGATE_TEXT("pointer"))) {
    opgate_text_at(review->object, "data");
  }
  if (opgate_same(name, OPGATE_TEXT("nothing"))) {
    opgate_text_at(opgate_at(review->object, "/no/such"), "/a");
  }
  if (opgate_same(name, OPGATE_TEXT("stack"))) {
    deeper(1);
  }
  if (opgate_same(name, OPGATE_TEXT("zero"))) {
    /* A zero byte ends no text. */
    opgate_text text = opgate_text_at(review->object, "/data/text");
    opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("%zu bytes, %s", text.len, opgate_contains(text, '@') ? "with an @" : "without"));
  }
  if (opgate_same(name, OPGATE_TEXT("many"))) {
    for (unsigned i = 0; i < 1000; i++) {
      opgate_add(report, &T_1, OPGATE_TEXT(""), opgate_format("finding %u", i));
    }
  }
}

const opgate_policy OPGATE_POLICY = {
    .name = "faults",
    .version = "1.0.0",
    .title = "ends in every way",
    .rules = OPGATE_RULES(&T_1),
    .routes = OPGATE_ROUTES({&MAP, judge}),
};
