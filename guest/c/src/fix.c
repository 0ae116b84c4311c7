/* Fixes of violations: the changes of an object after which it does not violate a rule. */
#include "internal.h"

static opgate_fix *new_fix(opgate_text title, opgate_policy_types_fix_safety_t safety) {
  opgate_fix *fix = opgate_array(1, sizeof *fix);
  fix->wit.title = opgate_to_wit(title);
  fix->wit.safety = safety;
  return fix;
}

opgate_fix *opgate_fix_safe(opgate_text title) {
  return new_fix(title, OPGATE_POLICY_TYPES_FIX_SAFETY_SAFE);
}

opgate_fix *opgate_fix_needs_review(opgate_text title) {
  return new_fix(title, OPGATE_POLICY_TYPES_FIX_SAFETY_UNSAFE);
}

static wit_string_t checked(opgate_text pointer) {
  if (pointer.len > 0 && pointer.ptr[0] != '/') {
    opgate_fail_here(opgate_format("'%.*s' is not a JSON pointer: write '/%.*s'", OPGATE_ARG(pointer), OPGATE_ARG(pointer)));
  }
  return opgate_to_wit(pointer);
}

/* Adds a change, and returns it. */
static opgate_policy_types_edit_t *add(opgate_fix *fix, uint8_t tag) {
  opgate_policy_types_list_edit_t *edits = &fix->wit.edits;
  edits->ptr = opgate_grow(edits->ptr, edits->len, &fix->room, sizeof *edits->ptr);
  edits->ptr[edits->len] = (opgate_policy_types_edit_t){.tag = tag};
  return &edits->ptr[edits->len++];
}

void opgate_fix_set(opgate_fix *fix, opgate_text pointer, opgate_text json) {
  add(fix, OPGATE_POLICY_TYPES_EDIT_SET)->val.set = (opgate_policy_types_value_edit_t){checked(pointer), opgate_to_wit(json)};
}

void opgate_fix_insert(opgate_fix *fix, opgate_text pointer, opgate_text json) {
  add(fix, OPGATE_POLICY_TYPES_EDIT_INSERT)->val.insert = (opgate_policy_types_value_edit_t){checked(pointer), opgate_to_wit(json)};
}

void opgate_fix_remove(opgate_fix *fix, opgate_text pointer) {
  add(fix, OPGATE_POLICY_TYPES_EDIT_REMOVE)->val.remove = checked(pointer);
}

void opgate_fix_rename_key(opgate_fix *fix, opgate_text pointer, opgate_text name) {
  add(fix, OPGATE_POLICY_TYPES_EDIT_RENAME_KEY)->val.rename_key =
      (opgate_policy_types_rename_edit_t){checked(pointer), opgate_to_wit(name)};
}

void opgate_fix_move_file(opgate_fix *fix, opgate_text pointer, opgate_text path) {
  add(fix, OPGATE_POLICY_TYPES_EDIT_MOVE_FILE)->val.move_file =
      (opgate_policy_types_move_edit_t){checked(pointer), opgate_to_wit(path)};
}
