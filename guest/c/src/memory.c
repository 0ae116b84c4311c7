/*
 * Memory, and the few functions of libc that the SDK and compilers need.
 *
 * Memory is allocated from the end of the module's data and never freed, because an instance lives for one call. If the host refuses
 * more, the call ends, so that no call continues with a part of the data.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 65536u
#define ALIGN 8u

extern unsigned char __heap_base;

static uintptr_t next;

static void *take(size_t size, size_t align) {
  if (next == 0) {
    next = (uintptr_t)&__heap_base;
  }
  uintptr_t start = (next + align - 1) & ~(uintptr_t)(align - 1);
  uintptr_t end;
  if (__builtin_add_overflow(start, size, &end) || start < next) {
    opgate_fail("more memory than there is");
  }
  uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) * PAGE;
  if (end > have) {
    size_t pages = (end - have + PAGE - 1) / PAGE;
    if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) {
      opgate_fail("out of memory");
    }
  }
  next = end;
  return (void *)start;
}

void *opgate_allocate(size_t size) {
  void *memory = take(size, ALIGN);
  return memset(memory, 0, size);
}

void *opgate_array(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    opgate_fail("more memory than there is");
  }
  return opgate_allocate(bytes);
}

void *opgate_grow(void *old, size_t len, size_t *room, size_t size) {
  if (len < *room) {
    return old;
  }
  *room = *room == 0 ? 8 : *room * 2;
  void *grown = opgate_array(*room, size);
  if (len > 0) {
    memcpy(grown, old, len * size);
  }
  return grown;
}

void *malloc(size_t size) {
  return take(size, ALIGN);
}

/* Memory for the data of the host. */
__attribute__((__export_name__("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (size == 0) {
    return (void *)align;
  }
  void *memory = take(size, align);
  return old_size == 0 ? memory : memcpy(memory, old, old_size < size ? old_size : size);
}

/* The bindings refer to it, but call cabi_realloc above instead. */
void *realloc(void *old, size_t size) {
  (void)old;
  return take(size, ALIGN);
}

void abort(void) {
  __builtin_trap();
}

void opgate_fail_at(const char *file, int line, const char *text) {
  opgate_log(OPGATE_ERROR, opgate_format("panicked at %s:%d: %s", file, line, text));
  __builtin_trap();
}

opgate_source_position opgate_last_position;

void opgate_fail_here(opgate_text text) {
  opgate_source_position position = opgate_last_position;
  opgate_fail_at(position.file == NULL ? "a call of the SDK" : position.file, position.line, text.ptr);
}

/* The bindings link it for a section that `opgate policy pack` adds. */
void __component_type_object_force_link_wit(void) {}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  return __builtin_memcpy(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
  return __builtin_memmove(to, from, size);
}

void *memset(void *memory, int byte, size_t size) {
  return __builtin_memset(memory, byte, size);
}

int memcmp(const void *left, const void *right, size_t size) {
  const unsigned char *l = left, *r = right;
  for (size_t i = 0; i < size; i++) {
    if (l[i] != r[i]) {
      return l[i] < r[i] ? -1 : 1;
    }
  }
  return 0;
}

void *memchr(const void *memory, int byte, size_t size) {
  const unsigned char *at = memory;
  for (size_t i = 0; i < size; i++) {
    if (at[i] == (unsigned char)byte) {
      return (void *)(at + i);
    }
  }
  return NULL;
}

size_t strlen(const char *text) {
  size_t len = 0;
  while (text[len] != 0) {
    len++;
  }
  return len;
}

int strcmp(const char *left, const char *right) {
  while (*left != 0 && *left == *right) {
    left++;
    right++;
  }
  return (unsigned char)*left - (unsigned char)*right;
}
