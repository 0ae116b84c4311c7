/* Documents: the host's handles behind the functions of opgate.h. */
#include "internal.h"

#include <string.h>

typedef opgate_policy_document_borrow_document_t handle;
typedef opgate_policy_document_own_document_t owned;

static handle of(opgate_document document) {
  if (document.handle == 0) {
    opgate_fail("a document that does not exist: call opgate_exists first");
  }
  return (handle){document.handle};
}

static wit_string_t is_pointer(const char *pointer) {
  if (pointer[0] != 0 && pointer[0] != '/') {
    opgate_fail_here(opgate_format("'%s' is not a JSON pointer: write '/%s'", pointer, pointer));
  }
  return opgate_to_wit(opgate_text_of(pointer));
}

static wit_string_t checked(opgate_document document, const char *pointer, opgate_access access) {
  wit_string_t at = is_pointer(pointer);
  opgate_check(document, opgate_of_wit(at), access);
  return at;
}

bool opgate_exists(opgate_document document) {
  return document.handle != 0;
}

opgate_kind opgate_kind_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_KIND);
  return (opgate_kind)opgate_policy_document_method_document_kind(of(document), &at);
}

bool opgate_has(opgate_document document, const char *pointer) {
  return opgate_kind_at(document, pointer) > OPGATE_NULL;
}

opgate_text opgate_text_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_SCALAR), found;
  bool is_there = opgate_policy_document_method_document_text(of(document), &at, &found);
  return is_there ? opgate_of_wit(found) : (opgate_text){NULL, 0};
}

bool opgate_boolean_at(opgate_document document, const char *pointer, bool *value) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_BOOLEAN);
  bool found;
  bool is_there = opgate_policy_document_method_document_boolean(of(document), &at, &found);
  if (is_there) {
    *value = found;
  }
  return is_there;
}

bool opgate_integer_at(opgate_document document, const char *pointer, int64_t *value) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_SCALAR);
  int64_t found;
  bool is_there = opgate_policy_document_method_document_integer(of(document), &at, &found);
  if (is_there) {
    *value = found;
  }
  return is_there;
}

bool opgate_number_at(opgate_document document, const char *pointer, double *value) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_SCALAR);
  double found;
  bool is_there = opgate_policy_document_method_document_number(of(document), &at, &found);
  if (is_there) {
    *value = found;
  }
  return is_there;
}

uint32_t opgate_length_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_MEMBERS);
  uint32_t length;
  return opgate_policy_document_method_document_length(of(document), &at, &length) ? length : 0;
}

opgate_texts opgate_keys_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_MEMBERS);
  wit_list_string_t found;
  opgate_policy_document_method_document_keys(of(document), &at, &found);
  return (opgate_texts){(opgate_text *)found.ptr, found.len};
}

opgate_texts opgate_column_at(opgate_document document, const char *pointer, const char *column) {
  wit_string_t at = is_pointer(pointer), name = is_pointer(column);
  opgate_check_column(document, opgate_of_wit(at), opgate_of_wit(name));
  wit_list_string_t columns = {&name, 1};
  opgate_policy_document_table_t table;
  opgate_policy_document_method_document_table(of(document), &at, &columns, &table);
  opgate_texts found = {opgate_array(table.cells.len, sizeof(opgate_text)), table.cells.len};
  size_t start = 0;
  for (size_t i = 0; i < table.cells.len; i++) {
    if (table.cells.ptr[i].tag == OPGATE_POLICY_DOCUMENT_CELL_TEXT) {
      uint32_t len = table.cells.ptr[i].val.text;
      found.ptr[i] = (opgate_text){(const char *)table.texts.ptr + start, len};
      start += len;
    }
  }
  return found;
}

opgate_texts opgate_texts_at(opgate_document document, const char *pointer) {
  opgate_texts found = opgate_column_at(document, pointer, "");
  size_t len = 0;
  for (size_t i = 0; i < found.len; i++) {
    if (found.ptr[i].ptr != NULL) {
      found.ptr[len++] = found.ptr[i];
    }
  }
  found.len = len;
  return found;
}

static opgate_document at_pointer(opgate_document document, wit_string_t pointer) {
  owned found;
  opgate_check(document, opgate_of_wit(pointer), OPGATE_ACCESS_KIND);
  if (!opgate_policy_document_method_document_at(of(document), &pointer, &found)) {
    return (opgate_document){0};
  }
  return (opgate_document){found.__handle, opgate_part_below(document.part, opgate_of_wit(pointer))};
}

opgate_document opgate_at(opgate_document document, const char *pointer) {
  return at_pointer(document, is_pointer(pointer));
}

opgate_document opgate_item_at(opgate_document document, const char *pointer, uint32_t index) {
  is_pointer(pointer);
  return at_pointer(document, opgate_to_wit(opgate_format("%s/%u", pointer, index)));
}

opgate_document opgate_member_at(opgate_document document, const char *pointer, opgate_text name) {
  size_t before = is_pointer(pointer).len;
  if (name.len > OPGATE_MAX_NAME_BYTES || before + 1 + 2 * name.len > OPGATE_MAX_NAME_BYTES) {
    /* The host takes no longer pointers, and no field has such a name. */
    return (opgate_document){0};
  }
  opgate_text path = opgate_format("%s/%.*s", pointer, OPGATE_ARG(opgate_escape(name)));
  return at_pointer(document, opgate_to_wit(path));
}

opgate_text opgate_raw_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_WHOLE);
  wit_list_u8_t found;
  bool is_there = opgate_policy_document_method_document_raw(of(document), &at, &found);
  return is_there ? (opgate_text){(const char *)found.ptr, found.len} : (opgate_text){NULL, 0};
}

uint32_t opgate_size_at(opgate_document document, const char *pointer) {
  wit_string_t at = checked(document, pointer, OPGATE_ACCESS_KIND);
  uint32_t size;
  return opgate_policy_document_method_document_size(of(document), &at, &size) ? size : 0;
}

bool opgate_equal(opgate_document left, const char *pointer, opgate_document right, const char *other_pointer) {
  wit_string_t at = checked(left, pointer, OPGATE_ACCESS_WHOLE), other = checked(right, other_pointer, OPGATE_ACCESS_WHOLE);
  return opgate_policy_document_method_document_equal(of(left), &at, of(right), &other);
}

opgate_document opgate_parse(opgate_text json, opgate_text *error) {
  wit_string_t text = opgate_to_wit(json), why;
  owned found;
  if (opgate_policy_document_static_document_parse(&text, &found, &why)) {
    return (opgate_document){found.__handle, NULL};
  }
  if (error != NULL) {
    *error = opgate_of_wit(why);
  }
  return (opgate_document){0};
}

void opgate_release(opgate_document document) {
  if (document.handle != 0) {
    opgate_policy_document_document_drop_own((owned){document.handle});
  }
}
