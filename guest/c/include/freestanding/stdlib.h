/* The part of stdlib.h that the generated bindings need: there is no libc. See src/memory.c. */
#ifndef OPGATE_STDLIB_H
#define OPGATE_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *realloc(void *old, size_t size);
_Noreturn void abort(void);

/* Memory is never freed, because an instance lives for one call. */
static inline void free(void *memory) {
  (void)memory;
}

#endif
