/*
 * The declared fields of cluster objects.
 *
 * The host keeps no other fields, so an undeclared field would look like a missing one. Such a read ends the call, whatever the object
 * holds. The host rejects it as well; here the error has its location in the source of the policy.
 */
#include "internal.h"

#include <string.h>

#define MAX_SHOWN_BYTES 256

static const char *const ALWAYS[] = {
    "/metadata/name",   "/metadata/namespace",         "/metadata/uid", "/metadata/resourceVersion",
    "/metadata/labels", "/metadata/deletionTimestamp", NULL,
};

/* The position of a pointer relative to a declared pointer. */
enum position { UNRELATED, ABOVE, EACH, SAME, CHILD, BELOW };

/* Takes the next token of a pointer. */
static bool next(opgate_text *rest, opgate_text *token) {
  if (rest->len == 0) {
    return false;
  }
  const char *start = rest->ptr + 1;
  const char *slash = memchr(start, '/', rest->len - 1);
  token->ptr = start;
  token->len = slash == NULL ? rest->len - 1 : (size_t)(slash - start);
  rest->ptr = start + token->len;
  rest->len -= token->len + 1;
  return true;
}

/* The position of `found` relative to the pattern. */
static enum position position_of(const char *pattern, opgate_text found) {
  opgate_text wanted = opgate_text_of(pattern), token, other;
  for (;;) {
    bool has_token = next(&wanted, &token), has_other = next(&found, &other);
    if (!has_token) {
      return !has_other ? SAME : found.len == 0 ? CHILD : BELOW;
    }
    bool is_any = opgate_text_equal(token, OPGATE_TEXT("*"));
    if (!has_other) {
      return is_any ? EACH : ABOVE;
    }
    if (!is_any && !opgate_text_equal(token, other)) {
      return UNRELATED;
    }
  }
}

enum kept { ENOUGH, NOTHING, PARTS, NAME };

/* The kept part of a value; ENOUGH if it covers the read. */
static enum kept lacking(const opgate_read *read, opgate_text pointer, opgate_access access) {
  bool is_in_part = false, has_all_members = false, is_name = false;
  const opgate_list lists[] = {ALWAYS, read->fields, read->keys};
  for (size_t i = 0; i < 3; i++) {
    for (opgate_list pattern = lists[i]; pattern != NULL && *pattern != NULL; pattern++) {
      enum position position = position_of(*pattern, pointer);
      bool is_whole = access == OPGATE_ACCESS_KIND || access == OPGATE_ACCESS_WHOLE;
      if (position == ABOVE || position == EACH) {
        is_in_part = true;
        has_all_members = has_all_members || position == EACH;
      } else if (i < 2 && position != UNRELATED) {
        return ENOUGH;
      } else if (position == SAME && (is_whole || access == OPGATE_ACCESS_MEMBERS)) {
        return ENOUGH;
      } else if (position == CHILD) {
        if (is_whole || access == OPGATE_ACCESS_BOOLEAN) {
          return ENOUGH;
        }
        is_name = true;
      }
    }
  }
  if ((is_in_part && access == OPGATE_ACCESS_KIND) || (has_all_members && access == OPGATE_ACCESS_MEMBERS)) {
    return ENOUGH;
  }
  if (has_all_members && access == OPGATE_ACCESS_WHOLE &&
      lacking(read, opgate_format("%.*s/*", OPGATE_ARG(pointer)), access) == ENOUGH) {
    return ENOUGH;
  }
  if (is_in_part) {
    return access == OPGATE_ACCESS_BOOLEAN || access == OPGATE_ACCESS_SCALAR ? NOTHING : PARTS;
  }
  return is_name ? NAME : NOTHING;
}

static opgate_text joined(const opgate_part *part, opgate_text pointer) {
  return part->base.len == 0 ? pointer : opgate_format("%.*s%.*s", OPGATE_ARG(part->base), OPGATE_ARG(pointer));
}

static opgate_text shortened(opgate_text text) {
  return text.len <= MAX_SHOWN_BYTES ? text : opgate_format("%.*s…", MAX_SHOWN_BYTES, text.ptr);
}

/* The pointer with * for the indices of elements. */
static opgate_text any_element(opgate_text pointer) {
  opgate_text all = {"", 0}, token;
  while (next(&pointer, &token)) {
    bool is_number = token.len > 0;
    for (size_t i = 0; i < token.len; i++) {
      is_number = is_number && token.ptr[i] >= '0' && token.ptr[i] <= '9';
    }
    token = is_number ? OPGATE_TEXT("*") : token;
    all = opgate_format("%.*s/%.*s", OPGATE_ARG(all), OPGATE_ARG(token));
  }
  return all;
}

static opgate_text words(const opgate_read *read, opgate_text pointer, enum kept kept) {
  const char *group = read->group == NULL ? "" : read->group;
  opgate_text of = opgate_format("%s%s%s/%s", group, group[0] == 0 ? "" : "/", read->version, read->resource);
  opgate_text shown = shortened(pointer), wanted = shortened(any_element(pointer));
  opgate_text add = opgate_format("add \"%.*s\" to `fields`", OPGATE_ARG(wanted));
  if (kept == NOTHING) {
    return opgate_format("the policy read '%.*s' of %.*s, which its read does not declare: %.*s", OPGATE_ARG(shown), OPGATE_ARG(of),
                         OPGATE_ARG(add));
  }
  if (kept == NAME) {
    return opgate_format("the policy read the value of '%.*s' of %.*s, of which its read declares only the name: %.*s", OPGATE_ARG(shown),
                         OPGATE_ARG(of), OPGATE_ARG(add));
  }
  if (pointer.len == 0) {
    return opgate_format("the policy read all of an object of %.*s, of which its read declares only some fields: read these by their pointers",
                         OPGATE_ARG(of));
  }
  return opgate_format("the policy read all of '%.*s' of %.*s, of which its read declares only parts: %.*s, or read the parts by their pointers",
                       OPGATE_ARG(shown), OPGATE_ARG(of), OPGATE_ARG(add));
}

void opgate_check(opgate_document document, opgate_text pointer, opgate_access access) {
  if (document.part == NULL) {
    return;
  }
  opgate_text full = joined(document.part, pointer);
  enum kept kept = lacking(document.part->read, full, access);
  if (kept != ENOUGH) {
    opgate_fail_here(words(document.part->read, full, kept));
  }
}

void opgate_check_column(opgate_document document, opgate_text pointer, opgate_text column) {
  if (document.part == NULL || column.len == 0) {
    opgate_check(document, pointer, OPGATE_ACCESS_MEMBERS);
    return;
  }
  opgate_text full = opgate_format("%.*s/*%.*s", OPGATE_ARG(pointer), OPGATE_ARG(column));
  if (lacking(document.part->read, joined(document.part, full), OPGATE_ACCESS_MEMBERS) != ENOUGH) {
    opgate_check(document, full, OPGATE_ACCESS_BOOLEAN);
  }
}

bool opgate_is_whole(opgate_document document, const char *pointer) {
  const opgate_part *part = document.part;
  return part == NULL || lacking(part->read, joined(part, opgate_text_of(pointer)), OPGATE_ACCESS_WHOLE) == ENOUGH;
}

const opgate_part *opgate_whole_of(const opgate_read *read) {
  opgate_part *part = opgate_allocate(sizeof *part);
  part->read = read;
  return part;
}

const opgate_part *opgate_part_below(const opgate_part *part, opgate_text pointer) {
  if (part == NULL) {
    return NULL;
  }
  opgate_text base = joined(part, pointer);
  if (lacking(part->read, base, OPGATE_ACCESS_SCALAR) == ENOUGH) {
    return NULL;
  }
  opgate_part *below = opgate_allocate(sizeof *below);
  *below = (opgate_part){part->read, base};
  return below;
}
