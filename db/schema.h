// Is this file one of ours, which schema has it, and how does it become the current one?
#pragma once

#include <span>
#include <string>

#include "db/sqlite.h"

namespace versieve::db {

inline constexpr std::int64_t kApplicationId = 0x56535645;  // "VSVE"

// One script of db/schema. Released scripts are never edited: their hash is kept in each file.
struct SchemaStep {
  int version = 0;
  const char* name = "";
  const char* sha256 = "";
  const char* sql = "";
};

std::span<const SchemaStep> schema_steps();
int schema_version();  // that this program writes
// The oldest program that may still read what this one writes; kept in each file.
int min_reader_version();

// Beside the file lies what a writer has committed and not yet moved into it, or has to undo.
bool has_unfinished_writes(const std::string& path);

// By the words that SQLite's files begin with. False of what is no file or cannot be read.
bool is_database(const std::string& path);

// Looks at the first bytes only, without opening a database: throws if the file cannot be a whole
// Versieve database. A file with unfinished writes of a killed process beside it is left to SQLite.
void check_header(const std::string& path);

// Throws if the open file is foreign or too new to be read by this program.
void check_readable(const Database& database);

// Brings an empty or older file to the last of `steps`, in one transaction; keeps a copy of an
// older file beside it. Throws if the file is foreign or newer.
void migrate(Database& database, std::span<const SchemaStep> steps);

}  // namespace versieve::db
