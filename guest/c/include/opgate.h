/*
 * Write admission policies for opgate in C.
 *
 *   opgate_target, opgate_read ─▶ opgate_rule ─┐
 *                                              ├─▶ OPGATE_POLICY ─┬─▶ describe: rules, matches, reads, schema of the settings
 *   opgate_route: target ─▶ judge ─────────────┘                  └─▶ validate: the judges of the routes that match
 *
 * Rules, targets and reads are static structs. They are compared by address: declare each of them once. Every list ends with NULL, and
 * OPGATE_LIST writes it: `.versions = OPGATE_LIST("v1")`. What is left out is empty, NULL or false.
 *
 * Texts have a length (opgate_text), because JSON can have a zero byte in a text. Memory is never freed: an instance lives for one call.
 * If it runs out, the call ends as a policy error, and no verdict is made of a part. opgate_fail ends a call in the same way.
 */
#ifndef OPGATE_H
#define OPGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Texts ---- */

/* A text in UTF-8. `ptr` is NULL if there is none. */
typedef struct opgate_text {
  const char *ptr;
  size_t len;
} opgate_text;

typedef struct opgate_texts {
  opgate_text *ptr;
  size_t len;
} opgate_texts;

/* A literal as a text. */
#define OPGATE_TEXT(literal) ((opgate_text){"" literal, sizeof(literal) - 1})
/* A text as two arguments for "%.*s". */
#define OPGATE_ARG(text) (int)(text).len, (text).ptr

opgate_text opgate_text_of(const char *text);
/* Formats with %s, %.*s, %d, %u, %zu and %%. The result ends with a zero byte, which is not counted. */
opgate_text opgate_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool opgate_same(opgate_text left, opgate_text right);
bool opgate_starts(opgate_text text, opgate_text beginning);
bool opgate_ends(opgate_text text, opgate_text end);
bool opgate_contains(opgate_text text, char byte);
/* Memory until the end of the call, set to zero. */
void *opgate_allocate(size_t size);

/* ---- Documents ---- */

/*
 * A JSON document that the host keeps, or a part of one. Every function takes a JSON pointer relative to it; "" is the document itself.
 * A pointer to nothing is no error. One that does not begin with a slash is a mistake of the policy, and ends the call. So does a read of
 * what the opgate_read of an object of the cluster does not declare.
 * Each function is one call of the host, unless it says otherwise.
 */
typedef struct opgate_document {
  int32_t handle; /* 0 if there is none */
  const struct opgate_part *part; /* what is declared to read of it, if it is an object of the cluster */
} opgate_document;

typedef enum opgate_kind {
  OPGATE_MISSING,
  OPGATE_NULL,
  OPGATE_BOOLEAN,
  OPGATE_NUMBER,
  OPGATE_STRING,
  OPGATE_ARRAY,
  OPGATE_OBJECT,
} opgate_kind;

bool opgate_exists(opgate_document document);
opgate_kind opgate_kind_at(opgate_document document, const char *pointer);
/* Whether there is a value other than null. */
bool opgate_has(opgate_document document, const char *pointer);
opgate_text opgate_text_at(opgate_document document, const char *pointer);
/* Whether there is such a value; it is put into `value`, which otherwise stays as it is. */
bool opgate_boolean_at(opgate_document document, const char *pointer, bool *value);
bool opgate_integer_at(opgate_document document, const char *pointer, int64_t *value);
bool opgate_number_at(opgate_document document, const char *pointer, double *value);
/* Elements of a list or members of an object; 0 for anything else. */
uint32_t opgate_length_at(opgate_document document, const char *pointer);
/* Names of an object's members, in byte order. */
opgate_texts opgate_keys_at(opgate_document document, const char *pointer);
/* The texts in a list, without elements of other kinds. */
opgate_texts opgate_texts_at(opgate_document document, const char *pointer);
/* For each element of a list the text at a pointer relative to it; NULL where there is none. */
opgate_texts opgate_column_at(opgate_document document, const char *pointer, const char *column);
/* The value as a document; element `index` of a list; member `name` of an object, whatever characters it has. */
opgate_document opgate_at(opgate_document document, const char *pointer);
opgate_document opgate_item_at(opgate_document document, const char *pointer, uint32_t index);
opgate_document opgate_member_at(opgate_document document, const char *pointer, opgate_text name);
/* The JSON text as it was received, and the number of its bytes without a copy. */
opgate_text opgate_raw_at(opgate_document document, const char *pointer);
uint32_t opgate_size_at(opgate_document document, const char *pointer);
/* Kubernetes semantic equality as far as JSON alone tells: null and an empty list are the same as nothing. */
bool opgate_equal(opgate_document left, const char *pointer, opgate_document right, const char *other_pointer);
/* A document from JSON text; none, and the error if `error` is not NULL, if it is no JSON. */
opgate_document opgate_parse(opgate_text json, opgate_text *error);
/* A call may have 1,000 documents: release those of long lists. */
void opgate_release(opgate_document document);

/* ---- What a policy declares ---- */

typedef const char *const *opgate_list;
#define OPGATE_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OPGATE_NOTHING ((const char *const[]){NULL})

typedef enum opgate_operation {
  OPGATE_CREATE = 1,
  OPGATE_UPDATE = 2,
  OPGATE_DELETE = 4,
  OPGATE_CONNECT = 8,
} opgate_operation;

typedef enum opgate_level { OPGATE_WARN, OPGATE_DENY } opgate_level;

/* A text that the settings may name. */
typedef struct opgate_setting {
  const char *pointer;  /* into the settings */
  const char *otherwise; /* used if the settings have no text there */
} opgate_setting;

/* Names by pattern: one of `include` fits, or there are none, and none of `exclude` fits. `*` stands for any characters. */
typedef struct opgate_names {
  opgate_list include;
  opgate_list exclude;
} opgate_names;

typedef struct opgate_condition {
  const char *name;
  const char *expression;
} opgate_condition;

/* Objects of one kind, as requests name them. Every list must match; `*` matches all. */
typedef struct opgate_target {
  opgate_list groups; /* the core group is "" */
  opgate_list versions;
  opgate_list resources; /* plural, lower case; pods/status for a sub-resource */
  const char *kind;      /* for people */
  const opgate_setting *namespace_;
  opgate_names namespaces;
  opgate_names names;
  bool advisory;
  const opgate_condition *conditions; /* in CEL, for the webhook configuration only; ends with {0} */
  const char *namespace_labels;       /* label selector, JSON */
  opgate_list enabled_by;             /* settings of which one must be present and not false */
} opgate_target;

/* A value by which a policy finds objects of the cluster. */
typedef struct opgate_index {
  const char *name;
  const char *field;
  const char *separator;
} opgate_index;

/* Objects of the cluster that a policy reads. */
typedef struct opgate_read {
  const char *group;
  const char *version;
  const char *resource;
  opgate_list fields; /* JSON pointers of what is kept and may be read, with * for every element */
  opgate_list keys;   /* JSON pointers of objects of which only the names of the members are kept */
  const char *labels; /* label selector, JSON */
  const opgate_setting *namespace_;
  const opgate_index *indexes; /* ends with {0} */
  opgate_list enabled_by;
} opgate_read;

/* Kinds and operations that a rule looks at. */
typedef struct opgate_on {
  const opgate_target *target;
  unsigned operations; /* OPGATE_CREATE | OPGATE_UPDATE */
} opgate_on;
#define OPGATE_ON(...) ((const opgate_on[]){__VA_ARGS__, {NULL, 0}})
#define OPGATE_READS(...) ((const opgate_read *const[]){__VA_ARGS__, NULL})

typedef struct opgate_rule {
  const char *id;    /* IMG-1 */
  const char *title; /* what must hold, in one sentence without a full stop */
  opgate_level level;
  const opgate_on *on;
  const opgate_read *const *reads;
  bool samples;            /* looks at custom resources of any kind, see opgate_sample */
  opgate_list off_until;   /* off by default: settings that turn it on; OPGATE_NOTHING if only the configuration does */
  opgate_list denies_with; /* settings that make a warning deny, if they are true or "deny" */
  bool never_exempt;       /* the setting `exempt` does not apply */
  bool may_skip;           /* may be skipped for another reason than a missing cluster */
  const char *source;      /* where the rule is documented */
} opgate_rule;
#define OPGATE_RULES(...) ((const opgate_rule *const[]){__VA_ARGS__, NULL})

/*
 * Puts a Markdown file with the documentation of the rules into the component: a heading `## IMG-1` for each rule, and its text. It is in
 * a section of the file, and never in the memory of a call. Once, in one file of the policy.
 */
#define OPGATE_DOCS(file) __asm__(".section \".custom_section.opgate-docs\",\"\",@\n.incbin \"" file "\"\n.text\n")

/* ---- Reviews ---- */

typedef struct opgate_review {
  opgate_operation operation;
  int32_t request;
  opgate_document object; /* none on DELETE */
  opgate_document old;    /* none on CREATE and CONNECT */
  opgate_document settings;
  int8_t exempt; /* kept by the SDK */
  int8_t spares; /* kept by the SDK */
} opgate_review;

typedef struct opgate_user {
  opgate_text username;
  opgate_text uid;
  opgate_texts groups;
} opgate_user;

typedef struct opgate_resource {
  opgate_text group;
  opgate_text version;
  opgate_text resource; /* plural; of opgate_kind_of the kind */
} opgate_resource;

opgate_text opgate_request_uid(const opgate_review *review);
opgate_text opgate_request_name(const opgate_review *review);
/* Namespace of the object, empty for a cluster-scoped one. */
opgate_text opgate_namespace(const opgate_review *review);
opgate_text opgate_sub_resource(const opgate_review *review);
opgate_resource opgate_resource_of(const opgate_review *review);
opgate_resource opgate_kind_of(const opgate_review *review);
opgate_user opgate_user_of(const opgate_review *review);
bool opgate_is_dry_run(const opgate_review *review);
/* Whether the settings exempt the user. The report ignores findings against such requests; asking first saves the work. */
bool opgate_is_exempt(opgate_review *review);
/* The old object of an UPDATE if findings about what did not change are left out, by the setting `ratcheting` or because the object is
 * being deleted; otherwise none. */
opgate_document opgate_spares(opgate_review *review);
/* Whether a rule must judge the value at the pointer of the object: always on CREATE, on UPDATE only if it changed. */
bool opgate_touches(opgate_review *review, const char *pointer);

/* ---- Reports ---- */

typedef struct opgate_report opgate_report;

/* Adds a finding: the field as Kubernetes writes it, and one sentence for the person who sent the request. */
void opgate_add(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text message);
/* The same with another level than the rule's; a configured level wins. */
void opgate_add_as(opgate_report *report, opgate_level level, const opgate_rule *rule, opgate_text field, opgate_text message);
/* Counts findings that are not written out. */
void opgate_add_more(opgate_report *report, const opgate_rule *rule, size_t more);
bool opgate_is_full(const opgate_report *report, const opgate_rule *rule);
/* The rule could not be evaluated, or only in part, and why. Only the first reason counts. */
void opgate_skip(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text why);
void opgate_skip_part(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text why);
/* A word for the audit log, and the reason of a denial. */
void opgate_note(opgate_report *report, const char *key, opgate_text word);
void opgate_set_reason(opgate_report *report, opgate_text reason);
bool opgate_is_on(opgate_report *report, const opgate_rule *rule);
bool opgate_denies(opgate_report *report, const opgate_rule *rule);
/* Number of findings so far that deny the request. */
size_t opgate_denials(const opgate_report *report, const opgate_rule *rule);

/* ---- The cluster ---- */

typedef enum opgate_status {
  OPGATE_ANSWERED,
  OPGATE_ABSENT,      /* there is no cluster to ask */
  OPGATE_UNAVAILABLE, /* these objects are not read, or cannot be read now */
  OPGATE_INVALID,     /* a selector is wrong */
} opgate_status;

typedef struct opgate_answer {
  opgate_status status;
  opgate_text why;
} opgate_answer;

typedef struct opgate_match {
  const char *index;
  opgate_texts values;
  bool absent;
} opgate_match;

/* All conditions that are set must hold. */
typedef struct opgate_query {
  opgate_text namespace_;
  opgate_text labels; /* label selector, JSON */
  const opgate_match *matches;
  size_t matches_len;
} opgate_query;

typedef struct opgate_object_name {
  opgate_text namespace_;
  opgate_text name;
} opgate_object_name;

typedef struct opgate_object_names {
  opgate_object_name *ptr;
  size_t len;
} opgate_object_names;

typedef struct opgate_documents {
  opgate_document *ptr;
  size_t len;
  bool complete; /* whether these are all */
} opgate_documents;

/* One object; none if it does not exist. The namespace is empty for cluster-scoped ones. */
opgate_answer opgate_get(const opgate_read *read, opgate_text namespace_, opgate_text name, opgate_document *found);
/* Calls `visit` with the objects that match, in byte order of namespace and name, until it returns false. Each is released after it. */
opgate_answer opgate_each(const opgate_read *read, const opgate_query *query, bool (*visit)(void *context, opgate_document object),
                          void *context);
opgate_answer opgate_names_of(const opgate_read *read, const opgate_query *query, opgate_object_names *found);
/* The first objects of any kind, at most 500, for rules with `samples`. The first question ends the call; the host calls again. */
opgate_answer opgate_sample(opgate_resource resource, uint32_t limit, opgate_documents *found);
/* Whether there is an answer. Without one the rules are skipped: `the cluster's Namespaces are not available`. */
bool opgate_answered(opgate_report *report, const opgate_rule *const *rules, const char *needed, opgate_answer answer);

/* ---- The policy ---- */

/* Which function judges which kind. */
typedef struct opgate_route {
  const opgate_target *on;
  void (*judge)(opgate_review *review, opgate_report *report);
} opgate_route;
#define OPGATE_ROUTES(...) ((const opgate_route[]){__VA_ARGS__, {NULL, NULL}})

typedef struct opgate_wrong opgate_wrong;
/* Says that the settings are wrong at a JSON pointer. */
void opgate_is_wrong(opgate_wrong *wrong, opgate_text pointer, opgate_text message);

typedef struct opgate_policy {
  const char *name;
  const char *version;
  const char *title;
  const opgate_rule *const *rules;
  const opgate_route *routes; /* at most 64 */
  const char *settings;       /* JSON object with the schemas of its own settings, by name */
  void (*check_settings)(opgate_document settings, opgate_wrong *wrong);
} opgate_policy;

/* The policy defines it. */
extern const opgate_policy OPGATE_POLICY;

/* ---- The log ---- */

typedef enum opgate_severity { OPGATE_DEBUG, OPGATE_INFO, OPGATE_WARNING, OPGATE_ERROR } opgate_severity;
/* The host adds the name of the policy, and keeps 64 lines of 2,048 bytes of a call. */
void opgate_log(opgate_severity severity, opgate_text line);
/* Ends the call as a policy error, with the text and its place in the source. */
#define opgate_fail(text) opgate_fail_at(__FILE__, __LINE__, (text))
_Noreturn void opgate_fail_at(const char *file, int line, const char *text);

/* Where the policy called the SDK last: the place of an error about a pointer. */
typedef struct opgate_place {
  const char *file;
  int line;
} opgate_place;
extern opgate_place opgate_last_place;
#define opgate_note_place() ((void)(opgate_last_place = (opgate_place){__FILE__, __LINE__}))
#ifndef OPGATE_IN_SDK
#define opgate_kind_at(...) (opgate_note_place(), opgate_kind_at(__VA_ARGS__))
#define opgate_has(...) (opgate_note_place(), opgate_has(__VA_ARGS__))
#define opgate_text_at(...) (opgate_note_place(), opgate_text_at(__VA_ARGS__))
#define opgate_boolean_at(...) (opgate_note_place(), opgate_boolean_at(__VA_ARGS__))
#define opgate_integer_at(...) (opgate_note_place(), opgate_integer_at(__VA_ARGS__))
#define opgate_number_at(...) (opgate_note_place(), opgate_number_at(__VA_ARGS__))
#define opgate_length_at(...) (opgate_note_place(), opgate_length_at(__VA_ARGS__))
#define opgate_keys_at(...) (opgate_note_place(), opgate_keys_at(__VA_ARGS__))
#define opgate_texts_at(...) (opgate_note_place(), opgate_texts_at(__VA_ARGS__))
#define opgate_column_at(...) (opgate_note_place(), opgate_column_at(__VA_ARGS__))
#define opgate_at(...) (opgate_note_place(), opgate_at(__VA_ARGS__))
#define opgate_item_at(...) (opgate_note_place(), opgate_item_at(__VA_ARGS__))
#define opgate_member_at(...) (opgate_note_place(), opgate_member_at(__VA_ARGS__))
#define opgate_raw_at(...) (opgate_note_place(), opgate_raw_at(__VA_ARGS__))
#define opgate_size_at(...) (opgate_note_place(), opgate_size_at(__VA_ARGS__))
#define opgate_equal(...) (opgate_note_place(), opgate_equal(__VA_ARGS__))
#define opgate_touches(...) (opgate_note_place(), opgate_touches(__VA_ARGS__))
#endif

#endif
