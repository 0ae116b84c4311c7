/* Keys and values of labels as Kubernetes checks them. The texts are those of apimachinery v0.36; the Rust SDK does the same in
 * common/compat/src/names.rs. */
#include "internal.h"

#define RULE "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
#define NAMES "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
#define VALUES "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
#define SUBDOMAIN                                                                                                                        \
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "        \
  "alphanumeric character (e.g. 'example.com', regex used for validation is "                                                             \
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

static bool is_lower(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

static bool is_alphanumeric(char byte) {
  return is_lower(byte) || (byte >= 'A' && byte <= 'Z');
}

static bool is_qualified(opgate_text text) {
  for (size_t i = 0; i < text.len; i++) {
    char byte = text.ptr[i];
    if (!is_alphanumeric(byte) && byte != '-' && byte != '_' && byte != '.') {
      return false;
    }
  }
  return text.len > 0 && is_alphanumeric(text.ptr[0]) && is_alphanumeric(text.ptr[text.len - 1]);
}

static bool is_subdomain(opgate_text text) {
  for (size_t i = 0; i < text.len; i++) {
    char byte = text.ptr[i];
    bool is_end = i == 0 || i + 1 == text.len || text.ptr[i - 1] == '.' || text.ptr[i + 1] == '.';
    if (!is_lower(byte) && (is_end || (byte != '-' && byte != '.'))) {
      return false;
    }
  }
  return text.len > 0;
}

/* One error after others. */
static opgate_text joined(opgate_text errors, const char *error) {
  return errors.ptr == NULL ? opgate_text_of(error) : opgate_format("%.*s; %s", OPGATE_ARG(errors), error);
}

opgate_text opgate_label_key_error(opgate_text key) {
  opgate_text errors = {NULL, 0}, name = key;
  size_t slashes = 0, slash = 0;
  for (size_t i = 0; i < key.len; i++) {
    if (key.ptr[i] == '/') {
      slashes++;
      slash = i;
    }
  }
  if (slashes > 1) {
    return OPGATE_TEXT("a valid label key " RULE " " NAMES " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
  }
  if (slashes == 1) {
    opgate_text prefix = {key.ptr, slash};
    name = (opgate_text){key.ptr + slash + 1, key.len - slash - 1};
    if (prefix.len == 0) {
      errors = joined(errors, "prefix part must be non-empty");
    } else {
      if (prefix.len > 253) {
        errors = joined(errors, "prefix part must be no more than 253 bytes");
      }
      if (!is_subdomain(prefix)) {
        errors = joined(errors, "prefix part " SUBDOMAIN);
      }
    }
  }
  if (name.len == 0) {
    errors = joined(errors, "name part must be non-empty");
  } else if (name.len > 63) {
    errors = joined(errors, "name part must be no more than 63 bytes");
  }
  return is_qualified(name) ? errors : joined(errors, "name part " RULE " " NAMES);
}

opgate_text opgate_label_value_error(opgate_text value) {
  opgate_text errors = {NULL, 0};
  if (value.len > 63) {
    errors = joined(errors, "must be no more than 63 bytes");
  }
  if (value.len > 0 && !is_qualified(value)) {
    errors = joined(errors, "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
                            "and end with an alphanumeric character " VALUES);
  }
  return errors;
}
