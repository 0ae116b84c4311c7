/* What the files of the SDK share. */
#ifndef OPGATE_INTERNAL_H
#define OPGATE_INTERNAL_H

#define OPGATE_IN_SDK
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

/* A stored object, of which only what a policy declares is there, or a part of it. */
typedef struct opgate_part {
  const opgate_read *read;
  opgate_text base; /* the pointer to it in the object */
} opgate_part;
/* How a policy reads a value. */
typedef enum opgate_access {
  OPGATE_ACCESS_KIND, /* its kind, the size of what is kept of it, or a document to go on from */
  OPGATE_ACCESS_BOOLEAN,
  OPGATE_ACCESS_SCALAR,  /* a text or a number */
  OPGATE_ACCESS_MEMBERS, /* the names or the number of its members or elements */
  OPGATE_ACCESS_WHOLE,
} opgate_access;
/* Ends the call unless all is kept that a read needs. */
void opgate_check(opgate_document document, opgate_text pointer, opgate_access access);
/* The same for a column of the elements of a list. */
void opgate_check_column(opgate_document document, opgate_text pointer, opgate_text column);
const opgate_part *opgate_whole_of(const opgate_read *read);
/* What is declared of the value at a pointer; NULL if it is whole. */
const opgate_part *opgate_part_below(const opgate_part *part, opgate_text pointer);
/* Ends the call with the place where the policy called the SDK. */
_Noreturn void opgate_fail_here(opgate_text text);

opgate_report *opgate_report_new(opgate_review *review);
void opgate_finish(opgate_report *report, wit_verdict_t *verdict);

#endif
