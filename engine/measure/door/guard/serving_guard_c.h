/* serving_guard.h for C and for whatever calls C: a table of a schedule's rows, and a guard for
 * each request. Exactly one C++20 file of the program defines VERSIEVE_GUARD_IMPLEMENTATION before
 * it includes this. A table is used by any number of threads, and so is an engine's guard, which
 * holds one for each slot that a request can have; a request's guard by one thread at a time. */
#ifndef VERSIEVE_SERVING_GUARD_C_H
#define VERSIEVE_SERVING_GUARD_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The fields of an exported schedule that a guard reads. */
typedef struct versieve_guard_row {
  int64_t context_high;
  int64_t requests_high;
  int32_t depth;
  int32_t width;
  int32_t nodes;
  double tokens;
  double break_even;
} versieve_guard_row;

typedef struct versieve_guard_choice {
  int32_t depth; /* 0: no draft */
  int32_t width;
  int32_t nodes;
} versieve_guard_choice;

typedef struct versieve_guard_table versieve_guard_table;
typedef struct versieve_guard versieve_guard;
typedef struct versieve_engine_guard versieve_engine_guard;

/* Null where the rows are no schedule: `why` (may be null) then holds the reason, cut to `size`. */
versieve_guard_table* versieve_guard_table_make(const versieve_guard_row* rows, size_t count,
                                                char* why, size_t size);
void versieve_guard_table_free(versieve_guard_table* table);

/* REQUIRES: the table outlives the guard. Null: out of memory, or no table; a null guard, of a
 * request or of an engine, decodes plainly and learns nothing. */
versieve_guard* versieve_guard_make(const versieve_guard_table* table);
void versieve_guard_free(versieve_guard* guard);

/* What the next step drafts. */
versieve_guard_choice versieve_guard_next(versieve_guard* guard, int64_t context, int64_t requests);
/* What it yielded, bonus counted. 1: learnt; 0: no such step can be, and nothing was. */
int versieve_guard_observe(versieve_guard* guard, double tokens);

/* The same for requests by their slots, from 0. A slot that is not there decodes plainly and learns
 * nothing. REQUIRES: the table outlives it. Null: out of memory, no table or no slot. */
versieve_engine_guard* versieve_engine_guard_make(const versieve_guard_table* table, size_t slots);
void versieve_engine_guard_free(versieve_engine_guard* guard);
/* A new request has the slot. 0: there is no such slot. */
int versieve_engine_guard_begin(versieve_engine_guard* guard, size_t slot);
versieve_guard_choice versieve_engine_guard_next(versieve_engine_guard* guard, size_t slot,
                                                 int64_t context, int64_t requests);
int versieve_engine_guard_observe(versieve_engine_guard* guard, size_t slot, double tokens);

#ifdef __cplusplus
}
#endif

#ifdef VERSIEVE_GUARD_IMPLEMENTATION
#include <cstdio>
#include <exception>
#include <new>

#include "serving_guard.h"

struct versieve_guard_table {
  versieve_serving::Table table;
};
struct versieve_guard {
  versieve_serving::Guard guard;
};
struct versieve_engine_guard {
  versieve_serving::EngineGuard guard;
};

/* No exception leaves these: the one that can be thrown is that of too little memory. */
versieve_guard_table* versieve_guard_table_make(const versieve_guard_row* rows, size_t count,
                                                char* why, size_t size) {
  try {
    std::string fault;
    const std::span<const versieve_guard_row> all(rows, rows == nullptr ? 0 : count);
    versieve_serving::Table table = versieve_serving::Table::of(all, fault);
    if (why != nullptr && size > 0) {
      std::snprintf(why, size, "%s", fault.c_str());
    }
    return fault.empty() ? new versieve_guard_table{std::move(table)} : nullptr;
  } catch (const std::bad_alloc&) {
    if (why != nullptr && size > 0) {
      std::snprintf(why, size, "out of memory");
    }
    return nullptr;
  }
}

void versieve_guard_table_free(versieve_guard_table* table) {
  delete table;
}

versieve_guard* versieve_guard_make(const versieve_guard_table* table) {
  return table == nullptr ? nullptr
                          : new (std::nothrow)
                                versieve_guard{versieve_serving::Guard(table->table)};
}

void versieve_guard_free(versieve_guard* guard) {
  delete guard;
}

versieve_guard_choice versieve_guard_next(versieve_guard* guard, int64_t context,
                                          int64_t requests) {
  const versieve_serving::Choice choice =
      guard == nullptr ? versieve_serving::Choice() : guard->guard.next(context, requests);
  return {choice.depth, choice.width, choice.nodes};
}

int versieve_guard_observe(versieve_guard* guard, double tokens) {
  return guard != nullptr && guard->guard.observe(tokens) ? 1 : 0;
}

versieve_engine_guard* versieve_engine_guard_make(const versieve_guard_table* table, size_t slots) {
  if (table == nullptr || slots == 0) {
    return nullptr;
  }
  try {
    return new versieve_engine_guard{versieve_serving::EngineGuard(table->table, slots)};
  } catch (const std::exception&) { /* of too little memory, or more slots than there can be */
    return nullptr;
  }
}

void versieve_engine_guard_free(versieve_engine_guard* guard) {
  delete guard;
}

int versieve_engine_guard_begin(versieve_engine_guard* guard, size_t slot) {
  return guard != nullptr && guard->guard.begin(slot) ? 1 : 0;
}

versieve_guard_choice versieve_engine_guard_next(versieve_engine_guard* guard, size_t slot,
                                                 int64_t context, int64_t requests) {
  const versieve_serving::Choice choice =
      guard == nullptr ? versieve_serving::Choice() : guard->guard.next(slot, context, requests);
  return {choice.depth, choice.width, choice.nodes};
}

int versieve_engine_guard_observe(versieve_engine_guard* guard, size_t slot, double tokens) {
  return guard != nullptr && guard->guard.observe(slot, tokens) ? 1 : 0;
}
#endif

#endif
