/* The part of string.h that a policy usually needs: there is no libc. See src/memory.c. */
#ifndef OPGATE_STRING_H
#define OPGATE_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *memory, int byte, size_t size);
int memcmp(const void *left, const void *right, size_t size);
void *memchr(const void *memory, int byte, size_t size);
size_t strlen(const char *text);
int strcmp(const char *left, const char *right);

#endif
