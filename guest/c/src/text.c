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

opgate_text opgate_escape(opgate_text name) {
  char *escaped = opgate_allocate(2 * name.len + 1);
  size_t len = 0;
  for (size_t i = 0; i < name.len; i++) {
    char byte = name.ptr[i];
    if (byte == '~' || byte == '/') {
      escaped[len++] = '~';
      byte = byte == '~' ? '0' : '1';
    }
    escaped[len++] = byte;
  }
  return (opgate_text){escaped, len};
}

opgate_text opgate_json(opgate_text text) {
  static const char DIGITS[] = "0123456789abcdef";
  /* Each byte becomes at most six. */
  char *json = opgate_allocate(6 * text.len + 3);
  size_t len = 0;
  json[len++] = '"';
  for (size_t i = 0; i < text.len; i++) {
    unsigned char byte = (unsigned char)text.ptr[i];
    if (byte < 0x20) {
      memcpy(json + len, "\\u00", 4);
      json[len + 4] = DIGITS[byte >> 4];
      json[len + 5] = DIGITS[byte & 15];
      len += 6;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      json[len++] = '\\';
    }
    json[len++] = (char)byte;
  }
  json[len++] = '"';
  return (opgate_text){json, len};
}

/* Maximum width and precision of a conversion of numbers. */
#define MAX_DIGITS 512

/* A conversion of a format, such as %-8.3s, or plain text. */
typedef struct {
  bool is_left, has_zeros, has_precision;
  bool has_length; /* the precision is the length of a text, from an argument */
  size_t width, precision;
  char length; /* h, l, j, z or t; H for hh, L for ll; 0 for int */
  char type;
} conversion;

/* One argument of a format, as text: a sign, then `zeros`, then the text; `spaces` before or behind. Numbers are written to `digits`, from its end. */
typedef struct {
  const char *ptr;
  size_t len, zeros, spaces;
  bool is_negative, is_left;
} part;

static void unsupported(const char *from, const char *end) {
  /* The text is formatted with conversions that are supported. */
  opgate_fail_here(opgate_format("opgate_format does not support %.*s: convert the value to a text or an integer", (int)(end - from), from));
}

static size_t number_in(const char **at) {
  size_t value = 0;
  while (**at >= '0' && **at <= '9') {
    value = value < MAX_DIGITS ? value * 10 + (size_t)(*(*at)++ - '0') : (++*at, value);
  }
  return value;
}

/* Reads the conversion after a percent sign. Advances `*at` to its end. */
static conversion conversion_at(const char **at, va_list *arguments) {
  conversion found = {0};
  for (; **at == '-' || **at == '0'; ++*at) {
    found.is_left = found.is_left || **at == '-';
    found.has_zeros = found.has_zeros || **at == '0';
  }
  if (**at == '*') {
    int width = va_arg(*arguments, int);
    found.is_left = found.is_left || width < 0;
    found.width = (size_t)(width < 0 ? -(int64_t)width : width);
    ++*at;
  } else {
    found.width = number_in(at);
  }
  if (**at == '.') {
    found.has_precision = true;
    ++*at;
    if (**at == '*') {
      int precision = va_arg(*arguments, int);
      found.has_precision = found.has_length = precision >= 0;
      found.precision = (size_t)(precision < 0 ? 0 : precision);
      ++*at;
    } else {
      found.precision = number_in(at);
    }
  }
  if (**at == 'h' || **at == 'l' || **at == 'j' || **at == 'z' || **at == 't') {
    found.length = *(*at)++;
    if ((found.length == 'h' || found.length == 'l') && **at == found.length) {
      found.length = found.length == 'h' ? 'H' : 'L';
      ++*at;
    }
  }
  found.type = **at == 0 ? 0 : *(*at)++;
  return found;
}

static int64_t signed_argument(char length, va_list *arguments) {
  switch (length) {
  case 'L':
    return va_arg(*arguments, long long);
  case 'j':
    return va_arg(*arguments, intmax_t);
  case 'l':
    return va_arg(*arguments, long);
  case 'z':
  case 't':
    return va_arg(*arguments, ptrdiff_t);
  default: {
    int value = va_arg(*arguments, int);
    return length == 'h' ? (short)value : length == 'H' ? (signed char)value : value;
  }
  }
}

static uint64_t unsigned_argument(char length, va_list *arguments) {
  switch (length) {
  case 'L':
    return va_arg(*arguments, unsigned long long);
  case 'j':
    return va_arg(*arguments, uintmax_t);
  case 'l':
    return va_arg(*arguments, unsigned long);
  case 'z':
  case 't':
    return va_arg(*arguments, size_t);
  default: {
    unsigned value = va_arg(*arguments, unsigned);
    return length == 'h' ? (unsigned short)value : length == 'H' ? (unsigned char)value : value;
  }
  }
}

static part number(uint64_t value, const conversion *of, char digits[24]) {
  unsigned base = of->type == 'x' || of->type == 'X' || of->type == 'p' ? 16 : of->type == 'o' ? 8 : 10;
  const char *symbols = of->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  size_t at = 24;
  for (; value > 0; value /= base) {
    digits[--at] = symbols[value % base];
  }
  size_t len = 24 - at, least = of->has_precision ? of->precision : 1;
  return (part){.ptr = digits + at, .len = len, .zeros = least > len ? least - len : 0};
}

static part integer(const conversion *of, va_list *arguments, char digits[24]) {
  if (of->type == 'd' || of->type == 'i') {
    int64_t value = signed_argument(of->length, arguments);
    part found = number(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, of, digits);
    found.is_negative = value < 0;
    return found;
  }
  return number(of->type == 'p' ? (uintptr_t)va_arg(*arguments, void *) : unsigned_argument(of->length, arguments), of, digits);
}

/* The text of a conversion. */
static part text_of(const conversion *of, va_list *arguments, char digits[24]) {
  if (of->type == '%') {
    return (part){.ptr = "%", .len = 1};
  }
  if (of->type == 'c') {
    digits[0] = (char)va_arg(*arguments, int);
    return (part){.ptr = digits, .len = 1};
  }
  const char *text = va_arg(*arguments, const char *);
  if (of->has_length) {
    /* A text with a length can have a zero byte. */
    return (part){.ptr = text, .len = of->precision};
  }
  const char *end = of->has_precision ? memchr(text, 0, of->precision) : NULL;
  return (part){.ptr = text, .len = end != NULL ? (size_t)(end - text) : of->has_precision ? of->precision : strlen(text)};
}

/* The part of the text that begins at `*format`. Advances `*format` to its end. */
static part next(const char **format, va_list *arguments, char digits[24]) {
  const char *from = *format, *at = from;
  if (*at != '%') {
    while (*at != 0 && *at != '%') {
      at++;
    }
    *format = at;
    return (part){.ptr = from, .len = (size_t)(at - from)};
  }
  at++;
  conversion of = conversion_at(&at, arguments);
  *format = at;
  bool is_integer = of.type != 0 && memchr("diuxXop", of.type, 7) != NULL;
  bool is_text = of.type != 0 && memchr("sc%", of.type, 3) != NULL && of.length == 0;
  if (!is_integer && !is_text) {
    unsupported(from, at);
  }
  part found = is_integer ? integer(&of, arguments, digits) : text_of(&of, arguments, digits);
  size_t len = found.len + found.zeros + found.is_negative;
  size_t missing = of.width > len ? of.width - len : 0;
  found.is_left = of.is_left;
  if (of.has_zeros && !of.is_left && is_integer && !of.has_precision) {
    found.zeros += missing;
  } else {
    found.spaces = missing;
  }
  return found;
}

static size_t write_part(char *text, size_t end, const part *added) {
  if (!added->is_left) {
    memset(text + end, ' ', added->spaces);
    end += added->spaces;
  }
  if (added->is_negative) {
    text[end++] = '-';
  }
  memset(text + end, '0', added->zeros);
  end += added->zeros;
  memcpy(text + end, added->ptr, added->len);
  end += added->len;
  if (added->is_left) {
    memset(text + end, ' ', added->spaces);
    end += added->spaces;
  }
  return end;
}

opgate_text opgate_format(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  char digits[24];
  size_t len = 0;
  for (const char *at = format; *at != 0;) {
    part added = next(&at, &arguments, digits);
    len += added.len + added.zeros + added.spaces + added.is_negative;
  }
  char *text = opgate_allocate(len + 1);
  size_t end = 0;
  for (const char *at = format; *at != 0;) {
    part added = next(&at, &again, digits);
    end = write_part(text, end, &added);
  }
  va_end(arguments);
  va_end(again);
  return (opgate_text){text, len};
}
