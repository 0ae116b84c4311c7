# Builds a policy in C. The Makefile of the policy:
#
#   NAME = house_images
#   OPGATE_SDK = opgate-policy-c-0.7.0
#   include $(OPGATE_SDK)/opgate.mk
#
#   src/*.c of the policy, src/*.c of the SDK ─▶ clang, wasm-ld ─▶ build/NAME.wasm ─▶ opgate policy pack ─▶ dist/NAME.component.wasm

CLANG ?= clang
OPGATE ?= opgate
SOURCES ?= $(wildcard src/*.c)
COMPONENT ?= dist/$(NAME).component.wasm

# 64 KiB of stack in 128 KiB of memory. The host copies this memory for each call.
OPGATE_STACK ?= 65536
OPGATE_MEMORY ?= 131072

OPGATE_CFLAGS = --target=wasm32-unknown-unknown -std=c11 -Os -mbulk-memory -ffreestanding -nostdlib \
	-ffunction-sections -fdata-sections -Wall -Wextra -Werror=format \
	-I$(OPGATE_SDK)/include -isystem $(OPGATE_SDK)/include/freestanding
OPGATE_LDFLAGS = -Wl,--no-entry -Wl,--gc-sections -Wl,--strip-all -Wl,--stack-first \
	-Wl,-z,stack-size=$(OPGATE_STACK) -Wl,--initial-memory=$(OPGATE_MEMORY)

OPGATE_SOURCES = $(wildcard $(OPGATE_SDK)/src/*.c)
OPGATE_OBJECTS = $(OPGATE_SOURCES:$(OPGATE_SDK)/src/%.c=build/sdk/%.o)
OBJECTS = $(SOURCES:%.c=build/%.o)

.PHONY: all test clean
.DEFAULT_GOAL = all

all: $(COMPONENT)

$(COMPONENT): build/$(NAME).wasm
	@mkdir -p $(@D)
	$(OPGATE) policy pack $< --out $@

build/$(NAME).wasm: $(OBJECTS) $(OPGATE_OBJECTS)
	$(CLANG) $(OPGATE_CFLAGS) $(OPGATE_LDFLAGS) $^ -o $@

# The compiler reads the documentation of the rules: OPGATE_DOCS.
$(OBJECTS): build/%.o: %.c $(wildcard src/*.h) $(wildcard *.md) $(OPGATE_SDK)/include/opgate.h
	@mkdir -p $(@D)
	$(CLANG) $(OPGATE_CFLAGS) $(CFLAGS) -c $< -o $@

build/sdk/%.o: $(OPGATE_SDK)/src/%.c $(wildcard $(OPGATE_SDK)/include/*.h $(OPGATE_SDK)/src/*.h)
	@mkdir -p $(@D)
	$(CLANG) $(OPGATE_CFLAGS) -c $< -o $@

test: $(COMPONENT)
	$(OPGATE) policy test .

clean:
	rm -rf build dist
