/*
 * Label selectors of Kubernetes. The Rust SDK does the same in guest/sdk/src/selector.rs, and both hold the cases in
 * guest/cases/helpers.json.
 *
 *   opgate_selector_at, opgate_map_selector_at ─▶ opgate_selector ─▶ opgate_matches: labels at a pointer
 */
#include "internal.h"

#include <string.h>

/* Maximum number of values that an error names, and of bytes of a text in one. */
#define MAX_LISTED_VALUES 64
#define MAX_SHOWN_BYTES 1024

enum operator { IN, NOT_IN, EXISTS, DOES_NOT_EXIST };
static const char *const OPERATORS[] = {"In", "NotIn", "Exists", "DoesNotExist"};

struct opgate_requirement {
  opgate_text key;
  enum operator operator;
  opgate_texts values;
};

/* A selector while it is read. */
typedef struct {
  opgate_selector selector;
  struct opgate_requirement *requirements;
  size_t room;
} builder;

/* Makes the selector invalid. Returns false. */
static bool fail(builder *built, opgate_text error) {
  built->selector = (opgate_selector){OPGATE_INVALID_SELECTOR, error, NULL, 0};
  return false;
}

static bool is_wrong(builder *built, opgate_text what, const char *expected) {
  return fail(built, opgate_format("%.*s is not %s", OPGATE_ARG(what), expected));
}

/* The part of a text that an error shows. */
static opgate_text truncated(opgate_text text) {
  if (text.len > MAX_SHOWN_BYTES) {
    text.len = MAX_SHOWN_BYTES;
    while (text.len > 0 && ((unsigned char)text.ptr[text.len] & 0xC0) == 0x80) {
      text.len--;
    }
  }
  return text;
}

static opgate_text quoted(opgate_text text) {
  text = truncated(text);
  /* Each byte becomes at most six. */
  char *out = opgate_allocate(6 * text.len + 3);
  size_t len = 0;
  out[len++] = '"';
  for (size_t i = 0; i < text.len; i++) {
    unsigned char byte = (unsigned char)text.ptr[i];
    static const char ESCAPED[] = "\"\\\n\r\t", LETTERS[] = "\"\\nrt";
    const char *at = byte == 0 ? NULL : memchr(ESCAPED, byte, sizeof ESCAPED - 1);
    bool is_c1 = byte == 0xC2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xA0;
    if (at != NULL || byte == 0) {
      out[len++] = '\\';
      out[len++] = byte == 0 ? '0' : LETTERS[at - ESCAPED];
    } else if (byte < 0x20 || byte == 0x7F || is_c1) {
      opgate_text escaped = opgate_format("\\u{%x}", is_c1 ? (unsigned char)text.ptr[++i] : byte);
      memcpy(out + len, escaped.ptr, escaped.len);
      len += escaped.len;
    } else {
      out[len++] = (char)byte;
    }
  }
  out[len++] = '"';
  return (opgate_text){out, len};
}

/* The errors of one requirement. */
typedef struct {
  opgate_text joined;
  size_t count;
} errors;

static void push(errors *all, opgate_text error) {
  all->joined = all->count++ == 0 ? error : opgate_format("%.*s, %.*s", OPGATE_ARG(all->joined), OPGATE_ARG(error));
}

static void check_number_of_values(errors *all, enum operator operator, opgate_texts values) {
  if (operator == IN || operator == NOT_IN) {
    if (values.len == 0) {
      push(all, OPGATE_TEXT("values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty"));
    }
  } else if (values.len > 0) {
    errors listed = {{NULL, 0}, 0};
    for (size_t i = 0; i < values.len && i < MAX_LISTED_VALUES; i++) {
      push(&listed, quoted(values.ptr[i]));
    }
    push(all, opgate_format("values: Invalid value: []string{%.*s}: values set must be empty for exists and does not exist",
                            OPGATE_ARG(listed.joined)));
  }
}

static bool add(builder *built, opgate_text key, enum operator operator, opgate_texts values) {
  errors all = {{NULL, 0}, 0};
  opgate_text why = opgate_label_key_error(key);
  if (why.ptr != NULL) {
    push(&all, opgate_format("key: Invalid value: %.*s: %.*s", OPGATE_ARG(quoted(key)), OPGATE_ARG(why)));
  }
  check_number_of_values(&all, operator, values);
  size_t wrong = 0;
  for (size_t i = 0; i < values.len && wrong < MAX_LISTED_VALUES; i++) {
    why = opgate_label_value_error(values.ptr[i]);
    if (why.ptr != NULL) {
      wrong++;
      push(&all, opgate_format("values[%zu][%.*s]: Invalid value: %.*s: %.*s", i, OPGATE_ARG(truncated(key)),
                               OPGATE_ARG(quoted(values.ptr[i])), OPGATE_ARG(why)));
    }
  }
  if (all.count > 0) {
    return fail(built, all.count == 1 ? all.joined : opgate_format("[%.*s]", OPGATE_ARG(all.joined)));
  }
  built->requirements = opgate_grow(built->requirements, built->selector.len, &built->room, sizeof *built->requirements);
  built->requirements[built->selector.len++] = (struct opgate_requirement){key, operator, values};
  return true;
}

static opgate_kind kind_of(opgate_document value, const char *pointer) {
  return opgate_exists(value) ? opgate_kind_at(value, pointer) : OPGATE_MISSING;
}

/* A text. Go reads a missing one and null as empty. */
static bool read_text(builder *built, opgate_document value, const char *pointer, opgate_text what, opgate_text *text) {
  switch (kind_of(value, pointer)) {
  case OPGATE_MISSING:
  case OPGATE_NULL:
    *text = OPGATE_TEXT("");
    return true;
  case OPGATE_STRING:
    *text = opgate_text_at(value, pointer);
    return true;
  default:
    return is_wrong(built, what, "a text");
  }
}

static bool add_labels(builder *built, opgate_document document, const char *pointer, const char *name) {
  opgate_kind kind = opgate_kind_at(document, pointer);
  if (kind == OPGATE_MISSING || kind == OPGATE_NULL) {
    return true;
  }
  if (kind != OPGATE_OBJECT) {
    return is_wrong(built, opgate_text_of(name), "an object");
  }
  opgate_texts keys = opgate_keys_at(document, pointer);
  opgate_text what = opgate_format("a value of %s", name);
  for (size_t i = 0; i < keys.len; i++) {
    opgate_text *value = opgate_allocate(sizeof *value);
    opgate_document label = opgate_member_at(document, pointer, keys.ptr[i]);
    bool is_text = read_text(built, label, "", what, value);
    opgate_release(label);
    if (!is_text || !add(built, keys.ptr[i], IN, (opgate_texts){value, 1})) {
      return false;
    }
  }
  return true;
}

static bool read_values(builder *built, opgate_document expression, opgate_text name, opgate_texts *values) {
  opgate_kind kind = kind_of(expression, "/values");
  *values = (opgate_texts){NULL, 0};
  if (kind == OPGATE_MISSING || kind == OPGATE_NULL) {
    return true;
  }
  if (kind != OPGATE_ARRAY) {
    return is_wrong(built, opgate_format("%.*s.values", OPGATE_ARG(name)), "a list");
  }
  *values = opgate_column_at(expression, "/values", "");
  for (size_t i = 0; i < values->len; i++) {
    if (values->ptr[i].ptr == NULL) {
      if (opgate_kind_at(expression, opgate_format("/values/%zu", i).ptr) != OPGATE_NULL) {
        return is_wrong(built, opgate_format("%.*s.values[%zu]", OPGATE_ARG(name), i), "a text");
      }
      values->ptr[i] = OPGATE_TEXT("");
    }
  }
  return true;
}

static bool add_expression(builder *built, opgate_document expression, opgate_text name) {
  opgate_kind kind = kind_of(expression, "");
  if (kind != OPGATE_OBJECT && kind != OPGATE_NULL) {
    return is_wrong(built, name, "an object");
  }
  opgate_text key, operator;
  opgate_texts values;
  if (!read_text(built, expression, "/key", opgate_format("%.*s.key", OPGATE_ARG(name)), &key) ||
      !read_text(built, expression, "/operator", opgate_format("%.*s.operator", OPGATE_ARG(name)), &operator) ||
      !read_values(built, expression, name, &values)) {
    return false;
  }
  for (int known = IN; known <= DOES_NOT_EXIST; known++) {
    if (opgate_text_equal(operator, opgate_text_of(OPERATORS[known]))) {
      return add(built, key, (enum operator)known, values);
    }
  }
  return fail(built, opgate_format("%.*s is not a valid label selector operator", OPGATE_ARG(quoted(operator))));
}

static bool add_expressions(builder *built, opgate_document document, const char *pointer) {
  opgate_kind kind = opgate_kind_at(document, pointer);
  if (kind == OPGATE_MISSING || kind == OPGATE_NULL) {
    return true;
  }
  if (kind != OPGATE_ARRAY) {
    return is_wrong(built, OPGATE_TEXT("matchExpressions"), "a list");
  }
  uint32_t len = opgate_length_at(document, pointer);
  for (uint32_t i = 0; i < len; i++) {
    opgate_document expression = opgate_item_at(document, pointer, i);
    bool is_valid = add_expression(built, expression, opgate_format("matchExpressions[%u]", i));
    opgate_release(expression);
    if (!is_valid) {
      return false;
    }
  }
  return true;
}

static opgate_selector finished(builder *built) {
  built->selector.requirements = built->requirements;
  return built->selector;
}

opgate_selector opgate_selector_at(opgate_document document, const char *pointer) {
  builder built = {.selector = {.status = OPGATE_VALID_SELECTOR}};
  opgate_kind kind = opgate_kind_at(document, pointer);
  if (kind == OPGATE_MISSING || kind == OPGATE_NULL) {
    return (opgate_selector){.status = OPGATE_NO_SELECTOR};
  }
  if (kind != OPGATE_OBJECT) {
    is_wrong(&built, OPGATE_TEXT("the selector"), "an object");
    return built.selector;
  }
  bool is_valid = add_labels(&built, document, opgate_format("%s/matchLabels", pointer).ptr, "matchLabels") &&
                  add_expressions(&built, document, opgate_format("%s/matchExpressions", pointer).ptr);
  return is_valid ? finished(&built) : built.selector;
}

opgate_selector opgate_map_selector_at(opgate_document document, const char *pointer) {
  builder built = {.selector = {.status = OPGATE_VALID_SELECTOR}};
  if (!add_labels(&built, document, pointer, "the selector")) {
    return built.selector;
  }
  return built.selector.len == 0 ? (opgate_selector){.status = OPGATE_NO_SELECTOR} : finished(&built);
}

static bool is_listed(opgate_texts values, opgate_text label) {
  for (size_t i = 0; i < values.len; i++) {
    if (opgate_text_equal(values.ptr[i], label)) {
      return true;
    }
  }
  return false;
}

static bool holds(const struct opgate_requirement *requirement, opgate_text label) {
  bool exists = label.ptr != NULL;
  switch (requirement->operator) {
  case IN:
    return exists && is_listed(requirement->values, label);
  case NOT_IN:
    /* As in Kubernetes, an object without the label satisfies NotIn. */
    return !exists || !is_listed(requirement->values, label);
  case EXISTS:
    return exists;
  default:
    return !exists;
  }
}

bool opgate_matches(opgate_document document, const char *pointer, const opgate_selector *selector) {
  for (size_t i = 0; i < selector->len; i++) {
    opgate_text key = opgate_escape(selector->requirements[i].key);
    const char *at = opgate_format("%s/%.*s", pointer, OPGATE_ARG(key)).ptr;
    opgate_text label = opgate_text_at(document, at);
    if (label.ptr == NULL && opgate_kind_at(document, at) == OPGATE_NULL) {
      /* As in Go, null is the empty text. */
      label = OPGATE_TEXT("");
    }
    if (!holds(&selector->requirements[i], label)) {
      return false;
    }
  }
  return selector->status == OPGATE_VALID_SELECTOR;
}
