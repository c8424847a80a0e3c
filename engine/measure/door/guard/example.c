/* A server's loop around the guard, in C: reads a schedule that `versieve export --format csv`
 * wrote and plays a request whose drafts are accepted less than the schedule expects, while other
 * requests come and go. Build, from this folder: cc -c example.c && c++ -std=c++20 -c guard.cpp &&
 * c++ example.o guard.o -o example
 *   ./example schedule.csv */
#include <stdio.h>
#include <stdlib.h>

#include "serving_guard_c.h"

#define MOST_ROWS 4096

/* The columns that a guard reads, of a line of the CSV; 0: it is no such line. */
static int row_of(const char* line, versieve_guard_row* row) {
  long long context_low, context_high, requests_low, requests_high;
  double tokens, tokens_low, tokens_high, break_even;
  int rank, depth, width, nodes;
  const int read = sscanf(line, "%lld,%lld,%lld,%lld,%d,%d,%d,%d,%lf,%lf,%lf,%lf", &context_low,
                          &context_high, &requests_low, &requests_high, &rank, &depth, &width,
                          &nodes, &tokens, &tokens_low, &tokens_high, &break_even);
  *row = (versieve_guard_row){context_high, requests_high, depth, width, nodes, tokens, break_even};
  return read == 12;
}

int main(int argc, char** argv) {
  static versieve_guard_row rows[MOST_ROWS];
  size_t count = 0;
  char line[1024], why[256];
  FILE* file = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (file == NULL) {
    fprintf(stderr, "usage: example SCHEDULE.csv\n");
    return 2;
  }
  while (count < MOST_ROWS && fgets(line, sizeof line, file) != NULL) {
    count += (size_t)row_of(line, &rows[count]); /* the first line names the columns */
  }
  fclose(file);

  versieve_guard_table* table = versieve_guard_table_make(rows, count, why, sizeof why);
  if (table == NULL) {
    fprintf(stderr, "%s: %s\n", argv[1], why);
    return 3;
  }
  versieve_guard* request = versieve_guard_make(table);
  if (request == NULL) {
    versieve_guard_table_free(table);
    return 4;
  }
  long long context = 900;
  for (int step = 0; step < 200; ++step) {
    const long long requests = step < 120 ? 1 : 64; /* then a crowd comes */
    const versieve_guard_choice choice = versieve_guard_next(request, context, requests);
    /* Here the server drafts and verifies; this request's drafts are right once in ten steps. */
    const int accepted = choice.depth > 0 && step % 10 == 0 ? 1 : 0;
    versieve_guard_observe(request, 1.0 + accepted);
    context += 1 + accepted;
    if (step == 0 || step == 119 || step == 199) {
      printf("step %d: context %lld, %lld at a time: depth %d, width %d, nodes %d\n", step, context,
             requests, (int)choice.depth, (int)choice.width, (int)choice.nodes);
    }
  }
  versieve_guard_free(request);
  versieve_guard_table_free(table);
  return 0;
}
