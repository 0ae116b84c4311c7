/* Declarations that the files of the SDK share. */
#ifndef OPGATE_INTERNAL_H
#define OPGATE_INTERNAL_H

#define OPGATE_IN_SDK
#include "opgate.h"
#include "wit.h"

/* Maximum number of violations in a verdict. */
#define OPGATE_MAX_VIOLATIONS 256
/* Maximum bytes of a name or pointer that the host accepts; no object has a longer name. */
#define OPGATE_MAX_NAME_BYTES 4096

/* Memory for `count` elements, set to zero. */
void *opgate_array(size_t count, size_t size);
/* An array with capacity for one more element. */
void *opgate_grow(void *old, size_t len, size_t *room, size_t size);

/* Texts of the SDK and of the bindings have the same layout. */
static inline wit_string_t opgate_to_wit(opgate_text text) {
  return (wit_string_t){(uint8_t *)(uintptr_t)text.ptr, text.len};
}
static inline opgate_text opgate_of_wit(wit_string_t text) {
  return (opgate_text){(const char *)text.ptr, text.len};
}
static inline wit_string_t opgate_wit_of(const char *text) {
  return opgate_to_wit(opgate_text_of(text == NULL ? "" : text));
}

/* The errors for the key and the value of a label; missing if it is valid. */
opgate_text opgate_label_key_error(opgate_text key);
opgate_text opgate_label_value_error(opgate_text value);

/* Rules in the order of their IDs. */
typedef struct opgate_rules {
  const opgate_rule **ptr;
  size_t len;
} opgate_rules;
opgate_rules opgate_sorted_rules(const opgate_policy *policy);
/* Whether a rule precedes another one: CSV-99 comes before CSV-100. */
bool opgate_is_before(const opgate_rule *left, const opgate_rule *right);
/* The descriptor of a policy. */
void opgate_describe(const opgate_policy *policy, wit_descriptor_t *descriptor);

/* A stored object, which has only the declared fields, or a part of it. */
typedef struct opgate_part {
  const opgate_read *read;
  opgate_text base; /* the pointer to it in the object */
} opgate_part;
/* How a policy reads a value. */
typedef enum opgate_access {
  OPGATE_ACCESS_KIND, /* its kind, the size of its kept fields, or a document for further reads */
  OPGATE_ACCESS_BOOLEAN,
  OPGATE_ACCESS_SCALAR,  /* a text or a number */
  OPGATE_ACCESS_MEMBERS, /* the names or the number of its members or elements */
  OPGATE_ACCESS_WHOLE,
} opgate_access;
/* Ends the call unless the declaration covers the read. */
void opgate_check(opgate_document document, opgate_text pointer, opgate_access access);
/* Checks a column of the elements of a list in the same way. */
void opgate_check_column(opgate_document document, opgate_text pointer, opgate_text column);
/* Whether all of the value at a pointer is there: of a cluster object, only the declared fields are. */
bool opgate_is_whole(opgate_document document, const char *pointer);
const opgate_part *opgate_whole_of(const opgate_read *read);
/* The declared fields of the value at a pointer; NULL if all of it is declared. */
const opgate_part *opgate_part_below(const opgate_part *part, opgate_text pointer);
/* Ends the call with the location of the policy's last call of the SDK. */
_Noreturn void opgate_fail_here(opgate_text text);

/* A fix, which has room for more edits. */
struct opgate_fix {
  opgate_policy_types_fix_t wit;
  size_t room;
};

opgate_report *opgate_report_new(opgate_review *review);
void opgate_finish(opgate_report *report, wit_verdict_t *verdict);

#endif
