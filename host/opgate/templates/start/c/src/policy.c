/* Policy {{name}}: Namespaces name their team. */
#include <opgate.h>

/* The documentation of the rules: `opgate rules explain NS-1` prints it. */
OPGATE_DOCS("rules.md");

static const opgate_target NAMESPACE = {
    .groups = OPGATE_LIST(""),
    .versions = OPGATE_LIST("v1"),
    .resources = OPGATE_LIST("namespaces"),
    .kind = "Namespace",
};

static const opgate_rule NS_1 = {
    .id = "NS-1",
    .name = "namespace-team",
    .title = "a Namespace has the label team",
    .level = OPGATE_DENY,
    .on = OPGATE_ON({&NAMESPACE, OPGATE_CREATE | OPGATE_UPDATE}),
    .sources = OPGATE_LIST("house rules, section 1"),
};

static void evaluate(opgate_review *review, opgate_report *report) {
  static const char TEAM[] = "/metadata/labels/team";
  /* On UPDATE, only a change of the label is the author's to fix. */
  if (opgate_exists(review->object) && opgate_touches(review, TEAM) && opgate_text_at(review->object, TEAM).len == 0) {
    opgate_add(report, &NS_1, OPGATE_TEXT("metadata.labels.team"), OPGATE_TEXT("the label team is missing"));
  }
}

const opgate_policy OPGATE_POLICY = {
    .name = "{{name}}",
    .version = "1.0.0",
    .title = "Namespaces name their team",
    .rules = OPGATE_RULES(&NS_1),
    .routes = OPGATE_ROUTES({&NAMESPACE, evaluate}),
};
