/* Kubernetes semantic equality of values whose Go type is known. The Rust SDK does the same in guest/sdk/src/shape.rs. */
#include "internal.h"

static bool is_nothing(opgate_kind kind) {
  return kind == OPGATE_MISSING || kind == OPGATE_NULL;
}

static bool is_empty(opgate_document document, const char *pointer) {
  opgate_kind kind = opgate_kind_at(document, pointer);
  return is_nothing(kind) || (kind == OPGATE_ARRAY && opgate_length_at(document, pointer) == 0);
}

static bool is_zero(opgate_document document, const char *pointer) {
  bool boolean;
  double number;
  switch (opgate_kind_at(document, pointer)) {
  case OPGATE_MISSING:
  case OPGATE_NULL:
    return true;
  case OPGATE_BOOLEAN:
    return opgate_boolean_at(document, pointer, &boolean) && !boolean;
  case OPGATE_NUMBER:
    return opgate_number_at(document, pointer, &number) && number == 0;
  case OPGATE_STRING:
    return opgate_text_at(document, pointer).len == 0;
  default:
    return false;
  }
}

static bool are_fields_equal(const opgate_shape *shape, opgate_document left, opgate_document right, const char *pointer) {
  for (const opgate_shape_field *field = shape->fields; field != NULL && field->name != NULL; field++) {
    opgate_text name = opgate_escape(opgate_text_of(field->name));
    if (!opgate_shape_equal(&field->shape, left, right, opgate_format("%s/%.*s", pointer, OPGATE_ARG(name)).ptr)) {
      return false;
    }
  }
  return true;
}

static bool are_lists_equal(const opgate_shape *item, opgate_document left, opgate_document right, const char *pointer) {
  if (is_empty(left, pointer) && is_empty(right, pointer)) {
    return true;
  }
  if (opgate_kind_at(left, pointer) != OPGATE_ARRAY || opgate_kind_at(right, pointer) != OPGATE_ARRAY) {
    return false;
  }
  uint32_t len = opgate_length_at(left, pointer);
  if (opgate_length_at(right, pointer) != len) {
    return false;
  }
  for (uint32_t i = 0; i < len; i++) {
    if (!opgate_shape_equal(item, left, right, opgate_format("%s/%u", pointer, i).ptr)) {
      return false;
    }
  }
  return true;
}

bool opgate_shape_equal(const opgate_shape *shape, opgate_document left, opgate_document right, const char *pointer) {
  bool is_whole = shape->kind == OPGATE_SHAPE_SCALAR || (opgate_is_whole(left, pointer) && opgate_is_whole(right, pointer));
  if (is_whole && opgate_equal(left, pointer, right, pointer)) {
    return true;
  }
  if (shape->kind == OPGATE_SHAPE_SCALAR) {
    return is_zero(left, pointer) && is_zero(right, pointer);
  }
  if (shape->kind == OPGATE_SHAPE_LIST) {
    return are_lists_equal(shape->item, left, right, pointer);
  }
  opgate_kind kinds[] = {opgate_kind_at(left, pointer), opgate_kind_at(right, pointer)};
  for (size_t i = 0; i < 2; i++) {
    if (kinds[i] != OPGATE_OBJECT && (shape->kind == OPGATE_SHAPE_POINTER || !is_nothing(kinds[i]))) {
      return false;
    }
  }
  return are_fields_equal(shape, left, right, pointer);
}

bool opgate_touches_as(opgate_review *review, const char *pointer, const opgate_shape *shape) {
  opgate_document old = opgate_ratchet_base(review);
  return !opgate_exists(old) || !opgate_shape_equal(shape, review->object, old, pointer);
}
