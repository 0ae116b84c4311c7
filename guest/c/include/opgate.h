/*
 * Write admission policies for opgate in C.
 *
 *   opgate_target, opgate_read ─▶ opgate_rule ─┐
 *                                              ├─▶ OPGATE_POLICY ─┬─▶ describe: rules, matches, reads, schema of the settings
 *   opgate_route: target ─▶ evaluate ──────────┘                  └─▶ validate: the functions of the routes that match
 *
 * Rules, targets and reads are static structs. They are compared by address: declare each of them once. Every list ends with NULL, and
 * OPGATE_LIST writes it: `.versions = OPGATE_LIST("v1")`. Omitted members are empty, NULL or false.
 *
 * Texts have a length (opgate_text), because JSON can have a zero byte in a text. Memory is never freed: an instance lives for one call.
 * If memory is exhausted, the call ends as a policy error, never as a partial verdict. opgate_fail ends a call in the same way.
 */
#ifndef OPGATE_H
#define OPGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Texts ---- */

/* A text in UTF-8. `ptr` is NULL for a missing text. */
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
/*
 * Formats texts and integers as printf does: %s, %c, %d, %i, %u, %x, %X, %o, %p and %% with flags - and 0, a width, a precision, and the
 * lengths hh, h, l, ll, j, z and t. Any other conversion, such as %f, ends the call. The result ends with a zero byte, which is not counted.
 */
opgate_text opgate_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool opgate_text_equal(opgate_text left, opgate_text right);
bool opgate_text_has_prefix(opgate_text text, opgate_text prefix);
bool opgate_text_has_suffix(opgate_text text, opgate_text suffix);
bool opgate_contains(opgate_text text, char byte);
/* A name as a token of a JSON pointer: ~0 for ~, and ~1 for /. */
opgate_text opgate_escape(opgate_text name);
/* A text as JSON, with its quotes: a value for opgate_fix_set. */
opgate_text opgate_json(opgate_text text);
/* Memory until the end of the call, set to zero. */
void *opgate_allocate(size_t size);

/* ---- Documents ---- */

/*
 * A JSON document that the host keeps, or a part of one. Every function takes a JSON pointer relative to it; "" is the document itself.
 * A pointer to a missing value is not an error. A pointer without a slash at its beginning is a mistake of the policy, and ends the call.
 * So does a read of a field that the opgate_read of a cluster object does not declare. Each function is one call of the host.
 */
typedef struct opgate_document {
  int32_t handle;                 /* 0 for a missing document */
  const struct opgate_part *part; /* the declared fields of a cluster object; NULL for other documents */
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
/* Whether there is such a value. If so, it is written to `value`, which does not change otherwise. */
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
/* A document from JSON text. If the text is not JSON, the document is missing, and `error` (unless NULL) gets the error. */
opgate_document opgate_parse(opgate_text json, opgate_text *error);
/* A call may have 1,000 documents: release those of long lists. */
void opgate_release(opgate_document document);

/* ---- Label selectors ---- */

typedef enum opgate_selector_status {
  OPGATE_NO_SELECTOR, /* the value is missing or null: which objects that selects depends on the field, mostly none */
  OPGATE_VALID_SELECTOR,
  OPGATE_INVALID_SELECTOR, /* an API server rejects it */
} opgate_selector_status;

typedef struct opgate_selector {
  opgate_selector_status status;
  opgate_text error; /* the reason why it is invalid, in the words of Kubernetes */
  const struct opgate_requirement *requirements;
  size_t len; /* a valid selector without requirements matches all objects */
} opgate_selector;

/* The label selector at a pointer, such as "/spec/selector". */
opgate_selector opgate_selector_at(opgate_document document, const char *pointer);
/* The selector of a map of labels, such as "/spec/selector" of a Service; none if it is missing or empty, and so selects nothing. */
opgate_selector opgate_map_selector_at(opgate_document document, const char *pointer);
/* Whether the labels at a pointer, such as "/metadata/labels", match a selector; false unless it is valid. */
bool opgate_matches(opgate_document document, const char *pointer, const opgate_selector *selector);

/* ---- Shapes ---- */

typedef enum opgate_shape_kind {
  OPGATE_SHAPE_SCALAR,  /* a text, a boolean or a number: missing is the same as the zero value */
  OPGATE_SHAPE_STRUCT,  /* a struct by value */
  OPGATE_SHAPE_POINTER, /* a pointer to a struct: missing is not the same as {} */
  OPGATE_SHAPE_LIST,    /* missing is the same as [], and the order matters */
} opgate_shape_kind;

/* The Go type behind a JSON value, to compare values as Kubernetes does. */
typedef struct opgate_shape {
  opgate_shape_kind kind;
  const struct opgate_shape_field *fields; /* ends with a field without a name */
  const struct opgate_shape *item;
} opgate_shape;

typedef struct opgate_shape_field {
  const char *name;
  opgate_shape shape;
} opgate_shape_field;

/* Initializers: static const opgate_shape PORTS = OPGATE_LIST_SHAPE(OPGATE_STRUCT_SHAPE({"port", OPGATE_SCALAR_SHAPE})); */
#define OPGATE_SCALAR_SHAPE {OPGATE_SHAPE_SCALAR, NULL, NULL}
#define OPGATE_FIELD_SHAPES(...) ((const opgate_shape_field[]){__VA_ARGS__, {NULL, OPGATE_SCALAR_SHAPE}})
#define OPGATE_STRUCT_SHAPE(...) {OPGATE_SHAPE_STRUCT, OPGATE_FIELD_SHAPES(__VA_ARGS__), NULL}
#define OPGATE_POINTER_SHAPE(...) {OPGATE_SHAPE_POINTER, OPGATE_FIELD_SHAPES(__VA_ARGS__), NULL}
#define OPGATE_LIST_SHAPE(...) {OPGATE_SHAPE_LIST, NULL, &(const opgate_shape)__VA_ARGS__}

/* Whether the values at one pointer in two documents are semantically equal. */
bool opgate_shape_equal(const opgate_shape *shape, opgate_document left, opgate_document right, const char *pointer);

/* ---- Pods ---- */

/* The spec of a Pod, or of the pods that a template creates. */
typedef struct opgate_pod_spec {
  opgate_text name;    /* of the object, or of the deployment of a ClusterServiceVersion */
  opgate_text pointer; /* its path as a JSON pointer */
  opgate_text field;   /* its path as Kubernetes writes it */
} opgate_pod_spec;

typedef struct opgate_pod_specs {
  opgate_pod_spec *ptr;
  size_t len;
} opgate_pod_specs;

typedef struct opgate_container {
  const opgate_pod_spec *spec;
  const char *list;  /* containers, initContainers or ephemeralContainers */
  size_t index;      /* in the list */
  opgate_text value; /* the text at the requested column; missing if there is none */
} opgate_container;

typedef struct opgate_containers {
  opgate_container *ptr;
  size_t len;
} opgate_containers;

/* The spec of a Pod, or of the template of a Deployment, DaemonSet, StatefulSet, ReplicaSet, ReplicationController, Job, CronJob or
 * PodTemplate; none for other kinds. The kind of a request is `opgate_kind_of(review).resource`. */
opgate_pod_specs opgate_pods_in_object(opgate_document object, opgate_text kind);
/* The templates of the deployments of a ClusterServiceVersion. */
opgate_pod_specs opgate_pods_in_csv(opgate_document csv);
/* The containers of all three lists, with the text at a pointer relative to a container. One call of the host for each list. `document`
 * is the one from which the spec is. */
opgate_containers opgate_containers_of(opgate_document document, const opgate_pod_spec *spec, const char *column);
/* Their paths, as a JSON pointer and as Kubernetes writes them. */
opgate_text opgate_container_pointer(const opgate_container *container);
opgate_text opgate_container_field(const opgate_container *container);

/* ---- Declarations of a policy ---- */

typedef const char *const *opgate_list;
#define OPGATE_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OPGATE_EMPTY_LIST ((const char *const[]){NULL})

typedef enum opgate_operation {
  OPGATE_CREATE = 1,
  OPGATE_UPDATE = 2,
  OPGATE_DELETE = 4,
  OPGATE_CONNECT = 8,
} opgate_operation;

typedef enum opgate_level { OPGATE_WARN, OPGATE_DENY } opgate_level;

/* A text that the settings may name. */
typedef struct opgate_setting {
  const char *pointer;       /* into the settings */
  const char *default_value; /* used if the settings have no text there */
} opgate_setting;

/* Names by pattern: one of `include` fits, or `include` is empty, and none of `exclude` fits. `*` stands for any characters. */
typedef struct opgate_name_patterns {
  opgate_list include;
  opgate_list exclude;
} opgate_name_patterns;

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
  opgate_name_patterns namespaces;
  opgate_name_patterns names;
  bool advisory;
  const opgate_condition *conditions; /* in CEL, for the webhook configuration only; ends with {0} */
  const char *namespace_selector;     /* label selector, JSON */
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
  opgate_list fields;         /* JSON pointers of the fields that the policy reads, with * for every element */
  opgate_list keys;           /* JSON pointers of objects of which the host keeps only the names of the members */
  const char *label_selector; /* JSON; the host does not read other objects */
  const opgate_setting *namespace_;
  const opgate_index *indexes; /* ends with {0} */
  opgate_list enabled_by;
} opgate_read;

/* Kinds and operations to which a rule applies. */
typedef struct opgate_on {
  const opgate_target *target;
  unsigned operations; /* OPGATE_CREATE | OPGATE_UPDATE */
} opgate_on;
#define OPGATE_ON(...) ((const opgate_on[]){__VA_ARGS__, {NULL, 0}})
#define OPGATE_READS(...) ((const opgate_read *const[]){__VA_ARGS__, NULL})

typedef struct opgate_rule {
  const char *id;    /* IMG-1 */
  const char *name;  /* in kebab case: image-digest; NULL for none */
  const char *title; /* the requirement, in one sentence without a full stop */
  opgate_level level;
  const opgate_on *on;
  const opgate_read *const *reads;
  bool samples;            /* reads custom resources of any kind, see opgate_sample */
  opgate_list enabled_by;  /* off by default: settings that turn it on; OPGATE_EMPTY_LIST if only the configuration does */
  opgate_list denies_with; /* settings that make a warning deny, if they are true or "deny" */
  bool no_exemptions;      /* the setting `exempt` does not apply */
  bool may_skip;           /* may be skipped for another reason than a missing cluster */
  opgate_list sources;     /* where the requirement is documented */
} opgate_rule;
#define OPGATE_RULES(...) ((const opgate_rule *const[]){__VA_ARGS__, NULL})

/*
 * Embeds a Markdown file with the documentation of the rules in the component: a heading `## IMG-1` for each rule, and its text. It is a
 * section of the component, and never in the memory of a call. Use it once, in one file of the policy.
 */
#define OPGATE_DOCS(file) __asm__(".section \".custom_section.opgate-docs\",\"\",@\n.incbin \"" file "\"\n.text\n")

/* ---- Reviews ---- */

typedef struct opgate_review {
  opgate_operation operation;
  int32_t request;
  opgate_document object; /* missing on DELETE */
  opgate_document old;    /* missing on CREATE and CONNECT */
  opgate_document settings;
  int8_t exempt;   /* state of the SDK */
  int8_t ratchets; /* state of the SDK */
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
/* Whether the host uses fixes: for files it does, for requests of an API server it does not. */
bool opgate_wants_fixes(const opgate_review *review);
/* Whether the settings exempt the user. The report ignores violations by such users; a policy that checks first saves the work. */
bool opgate_is_exempt(opgate_review *review);
/* The old object of an UPDATE if the report omits violations in unchanged fields: by the setting `ratcheting`, or because the object is
 * being deleted. Otherwise missing. */
opgate_document opgate_ratchet_base(opgate_review *review);
/* Whether a rule must evaluate the value at the pointer of the object: always on CREATE, on UPDATE only if it changed. */
bool opgate_touches(opgate_review *review, const char *pointer);
/* The same, with values compared as their Go types are. */
bool opgate_touches_as(opgate_review *review, const char *pointer, const opgate_shape *shape);

/* ---- Reports ---- */

typedef struct opgate_report opgate_report;

/* The changes of an object after which it does not violate a rule, for `opgate check --fix` and for editors. Pointers are JSON pointers
 * relative to the object of the review, values are JSON text (opgate_json quotes a text), and the changes apply one after another. The
 * host ignores a fix that is not valid: it never changes the decision. */
typedef struct opgate_fix opgate_fix;
/* A fix that needs no review: the object means the same, or there is only one way to satisfy the rule. The title says what it does. */
opgate_fix *opgate_fix_safe(opgate_text title);
/* A fix that a person needs to review: it changes what the object does, or guesses a value. */
opgate_fix *opgate_fix_needs_review(opgate_text title);
/* Replaces or adds a value. Objects on the way that are missing are created. */
void opgate_fix_set(opgate_fix *fix, opgate_text pointer, opgate_text json);
/* Inserts an element in a list: before the one at the pointer, or at the end with `/list/-`. */
void opgate_fix_insert(opgate_fix *fix, opgate_text pointer, opgate_text json);
void opgate_fix_remove(opgate_fix *fix, opgate_text pointer);
/* Renames a member, in its place. */
void opgate_fix_rename_key(opgate_fix *fix, opgate_text pointer, opgate_text name);
/* Moves a file of a bundle (`/spec/files/3`), or one of its documents, to another path in the directory. */
void opgate_fix_move_file(opgate_fix *fix, opgate_text pointer, opgate_text path);

/* Adds a violation: the field as Kubernetes writes it, and one sentence for the person who sent the request. */
void opgate_add(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text message);
/* Adds a violation with another level than the rule's; a configured level wins. */
void opgate_add_as(opgate_report *report, opgate_level level, const opgate_rule *rule, opgate_text field, opgate_text message);
/* Adds a violation with its fix; NULL for none. */
void opgate_add_with_fix(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text message, const opgate_fix *fix);
/* Counts violations without their texts. */
void opgate_add_count(opgate_report *report, const opgate_rule *rule, size_t more);
bool opgate_is_full(const opgate_report *report, const opgate_rule *rule);
/* Records that the rule could not be evaluated, or only in part, with the reason. Only the first reason counts. */
void opgate_skip(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text reason);
void opgate_skip_part(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text reason);
/* Adds a word to an audit annotation, and sets the reason of a denial. */
void opgate_annotate(opgate_report *report, const char *key, opgate_text word);
void opgate_set_reason(opgate_report *report, opgate_text reason);
bool opgate_is_on(opgate_report *report, const opgate_rule *rule);
bool opgate_denies(opgate_report *report, const opgate_rule *rule);
/* Number of violations so far that deny the request. */
size_t opgate_denials(const opgate_report *report, const opgate_rule *rule);

/* ---- The cluster ---- */

typedef enum opgate_status {
  OPGATE_ANSWERED,
  OPGATE_NO_CLUSTER,  /* there is no cluster state to query */
  OPGATE_UNAVAILABLE, /* the server does not read these objects, or cannot read them now */
  OPGATE_INVALID,     /* a selector is invalid */
} opgate_status;

typedef struct opgate_answer {
  opgate_status status;
  opgate_text reason;
} opgate_answer;

typedef struct opgate_index_match {
  const char *index;
  opgate_texts values;
  bool include_missing; /* objects without a value match, too */
} opgate_index_match;

/* All conditions that are set must hold. */
typedef struct opgate_query {
  opgate_text namespace_;
  opgate_text label_selector; /* JSON */
  const opgate_index_match *matches;
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
  bool complete; /* whether these are all objects */
} opgate_documents;

/* One object; missing if it does not exist. The namespace is empty for cluster-scoped ones. */
opgate_answer opgate_get(const opgate_read *read, opgate_text namespace_, opgate_text name, opgate_document *found);
/* Calls `visit` with the objects that match, in byte order of namespace and name, until it returns false, and releases each of them. */
opgate_answer opgate_each(const opgate_read *read, const opgate_query *query, bool (*visit)(void *context, opgate_document object),
                          void *context);
opgate_answer opgate_names_of(const opgate_read *read, const opgate_query *query, opgate_object_names *found);
/* The first objects of any kind, at most 500, for rules with `samples`. The first call of it ends the call; the host calls again. */
opgate_answer opgate_sample(opgate_resource resource, uint32_t limit, opgate_documents *found);
/* Whether there is an answer. Without one, skips the rules: `the cluster's Namespaces are not available`. */
bool opgate_or_skip(opgate_report *report, const opgate_rule *const *rules, const char *needed, opgate_answer answer);

/* ---- The policy ---- */

/* The function that evaluates the requests of a target. */
typedef struct opgate_route {
  const opgate_target *on;
  void (*evaluate)(opgate_review *review, opgate_report *report);
} opgate_route;
#define OPGATE_ROUTES(...) ((const opgate_route[]){__VA_ARGS__, {NULL, NULL}})

typedef struct opgate_settings_errors opgate_settings_errors;
/* Reports an error in the settings at a JSON pointer. */
void opgate_settings_error(opgate_settings_errors *errors, opgate_text pointer, opgate_text message);

typedef struct opgate_policy {
  const char *name;
  const char *version;
  const char *title;
  const opgate_rule *const *rules;
  const opgate_route *routes; /* at most 64 */
  const char *settings;       /* JSON object with the schemas of the policy's settings, by name */
  void (*check_settings)(opgate_document settings, opgate_settings_errors *errors);
} opgate_policy;

/* The policy defines it. */
extern const opgate_policy OPGATE_POLICY;

/* ---- The log ---- */

typedef enum opgate_severity { OPGATE_DEBUG, OPGATE_INFO, OPGATE_WARNING, OPGATE_ERROR } opgate_severity;
/* The host adds the name of the policy, and keeps 64 lines of a call, each of at most 2,048 bytes. */
void opgate_log(opgate_severity severity, opgate_text line);
/* Ends the call as a policy error, with the text and its location in the source. */
#define opgate_fail(text) opgate_fail_at(__FILE__, __LINE__, (text))
_Noreturn void opgate_fail_at(const char *file, int line, const char *text);

/* The last call of the SDK in the source of the policy: the location of errors in pointers. */
typedef struct opgate_source_position {
  const char *file;
  int line;
} opgate_source_position;
extern opgate_source_position opgate_last_position;
/* A function, so that one expression can have several calls of the SDK. */
static inline void opgate_mark_position_at(const char *file, int line) {
  opgate_last_position = (opgate_source_position){file, line};
}
#define opgate_mark_position() opgate_mark_position_at(__FILE__, __LINE__)
#ifndef OPGATE_IN_SDK
#define opgate_kind_at(...) (opgate_mark_position(), opgate_kind_at(__VA_ARGS__))
#define opgate_has(...) (opgate_mark_position(), opgate_has(__VA_ARGS__))
#define opgate_text_at(...) (opgate_mark_position(), opgate_text_at(__VA_ARGS__))
#define opgate_boolean_at(...) (opgate_mark_position(), opgate_boolean_at(__VA_ARGS__))
#define opgate_integer_at(...) (opgate_mark_position(), opgate_integer_at(__VA_ARGS__))
#define opgate_number_at(...) (opgate_mark_position(), opgate_number_at(__VA_ARGS__))
#define opgate_length_at(...) (opgate_mark_position(), opgate_length_at(__VA_ARGS__))
#define opgate_keys_at(...) (opgate_mark_position(), opgate_keys_at(__VA_ARGS__))
#define opgate_texts_at(...) (opgate_mark_position(), opgate_texts_at(__VA_ARGS__))
#define opgate_column_at(...) (opgate_mark_position(), opgate_column_at(__VA_ARGS__))
#define opgate_at(...) (opgate_mark_position(), opgate_at(__VA_ARGS__))
#define opgate_item_at(...) (opgate_mark_position(), opgate_item_at(__VA_ARGS__))
#define opgate_member_at(...) (opgate_mark_position(), opgate_member_at(__VA_ARGS__))
#define opgate_raw_at(...) (opgate_mark_position(), opgate_raw_at(__VA_ARGS__))
#define opgate_size_at(...) (opgate_mark_position(), opgate_size_at(__VA_ARGS__))
#define opgate_equal(...) (opgate_mark_position(), opgate_equal(__VA_ARGS__))
#define opgate_touches(...) (opgate_mark_position(), opgate_touches(__VA_ARGS__))
#define opgate_touches_as(...) (opgate_mark_position(), opgate_touches_as(__VA_ARGS__))
#define opgate_format(...) (opgate_mark_position(), opgate_format(__VA_ARGS__))
#define opgate_selector_at(...) (opgate_mark_position(), opgate_selector_at(__VA_ARGS__))
#define opgate_map_selector_at(...) (opgate_mark_position(), opgate_map_selector_at(__VA_ARGS__))
#define opgate_matches(...) (opgate_mark_position(), opgate_matches(__VA_ARGS__))
#define opgate_shape_equal(...) (opgate_mark_position(), opgate_shape_equal(__VA_ARGS__))
#define opgate_pods_in_object(...) (opgate_mark_position(), opgate_pods_in_object(__VA_ARGS__))
#define opgate_pods_in_csv(...) (opgate_mark_position(), opgate_pods_in_csv(__VA_ARGS__))
#define opgate_fix_set(...) (opgate_mark_position(), opgate_fix_set(__VA_ARGS__))
#define opgate_fix_insert(...) (opgate_mark_position(), opgate_fix_insert(__VA_ARGS__))
#define opgate_fix_remove(...) (opgate_mark_position(), opgate_fix_remove(__VA_ARGS__))
#define opgate_fix_rename_key(...) (opgate_mark_position(), opgate_fix_rename_key(__VA_ARGS__))
#define opgate_containers_of(...) (opgate_mark_position(), opgate_containers_of(__VA_ARGS__))
#endif

#endif
