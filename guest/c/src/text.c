/* Texts: comparisons, and a small printf. */
#include "internal.h"

#include <stdarg.h>
#include <string.h>

opgate_text opgate_text_of(const char *text) {
  return (opgate_text){text, strlen(text)};
}

bool opgate_text_equal(opgate_text left, opgate_text right) {
  return left.len == right.len && memcmp(left.ptr, right.ptr, left.len) == 0;
}

bool opgate_text_has_prefix(opgate_text text, opgate_text prefix) {
  return text.len >= prefix.len && memcmp(text.ptr, prefix.ptr, prefix.len) == 0;
}

bool opgate_text_has_suffix(opgate_text text, opgate_text suffix) {
  return text.len >= suffix.len && memcmp(text.ptr + (text.len - suffix.len), suffix.ptr, suffix.len) == 0;
}

bool opgate_contains(opgate_text text, char byte) {
  return memchr(text.ptr, byte, text.len) != NULL;
}

/* One argument of a format, as text. Numbers are written to `digits`, from its end. */
typedef struct {
  const char *ptr;
  size_t len;
} part;

static part number(uint64_t value, bool negative, char digits[24]) {
  size_t at = 24;
  do {
    digits[--at] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  if (negative) {
    digits[--at] = '-';
  }
  return (part){digits + at, 24 - at};
}

/* The part of the text that begins at `*format`. Advances `*format` to its end. */
static part next(const char **format, va_list *arguments, char digits[24]) {
  const char *at = *format;
  if (*at != '%') {
    while (*at != 0 && *at != '%') {
      at++;
    }
    part plain = {*format, (size_t)(at - *format)};
    *format = at;
    return plain;
  }
  if (at[1] == 's') {
    *format = at + 2;
    const char *text = va_arg(*arguments, const char *);
    return (part){text, strlen(text)};
  }
  if (at[1] == '.' && at[2] == '*' && at[3] == 's') {
    *format = at + 4;
    int len = va_arg(*arguments, int);
    return (part){va_arg(*arguments, const char *), (size_t)(len < 0 ? 0 : len)};
  }
  if (at[1] == 'd') {
    *format = at + 2;
    int64_t value = va_arg(*arguments, int);
    return number((uint64_t)(value < 0 ? -value : value), value < 0, digits);
  }
  if (at[1] == 'u') {
    *format = at + 2;
    return number(va_arg(*arguments, unsigned), false, digits);
  }
  if (at[1] == 'z' && at[2] == 'u') {
    *format = at + 3;
    return number(va_arg(*arguments, size_t), false, digits);
  }
  if (at[1] == '%') {
    *format = at + 2;
    return (part){"%", 1};
  }
  /* An unknown conversion. opgate_fail would format its text, so there is none. */
  __builtin_trap();
}

opgate_text opgate_format(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  char digits[24];
  size_t len = 0;
  for (const char *at = format; *at != 0;) {
    len += next(&at, &arguments, digits).len;
  }
  char *text = opgate_allocate(len + 1);
  size_t end = 0;
  for (const char *at = format; *at != 0;) {
    part added = next(&at, &again, digits);
    memcpy(text + end, added.ptr, added.len);
    end += added.len;
  }
  va_end(arguments);
  va_end(again);
  return (opgate_text){text, len};
}
