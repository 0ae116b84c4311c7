/* What the files of the SDK share. */
#ifndef OPGATE_INTERNAL_H
#define OPGATE_INTERNAL_H

#include "opgate.h"
#include "wit.h"

/* Findings that a verdict has room for. */
#define OPGATE_ROOM 256
/* The host accepts no longer names and pointers, and no object has one. */
#define OPGATE_NAME 4096

/* Memory for `count` things, set to zero. */
void *opgate_array(size_t count, size_t size);
/* An array with room for one more thing. */
void *opgate_grown(void *old, size_t len, size_t *room, size_t size);

/* Texts of the SDK and of the bindings have the same form. */
static inline wit_string_t opgate_to_wit(opgate_text text) {
  return (wit_string_t){(uint8_t *)(uintptr_t)text.ptr, text.len};
}
static inline opgate_text opgate_of_wit(wit_string_t text) {
  return (opgate_text){(const char *)text.ptr, text.len};
}
static inline wit_string_t opgate_wit_of(const char *text) {
  return opgate_to_wit(opgate_text_of(text == NULL ? "" : text));
}

/* Rules in the order of their IDs. */
typedef struct opgate_rules {
  const opgate_rule **ptr;
  size_t len;
} opgate_rules;
opgate_rules opgate_sorted(const opgate_policy *policy);
/* Whether a rule stands before another one: CSV-99 comes before CSV-100. */
bool opgate_is_before(const opgate_rule *left, const opgate_rule *right);
/* The descriptor of a policy. */
void opgate_describe(const opgate_policy *policy, wit_descriptor_t *descriptor);

opgate_report *opgate_report_new(opgate_review *review);
void opgate_finish(opgate_report *report, wit_verdict_t *verdict);

#endif
