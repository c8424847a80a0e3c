// From a path to a checked connection, and back to one plain file on disk.
#pragma once

#include <memory>
#include <string>

#include "db/sqlite.h"

namespace versieve::db {

// Throws for a missing, foreign, truncated or too new file, without having touched it.
std::unique_ptr<Database> open_for_reading(const std::string& path);
// Creates, checks, migrates, and marks the runs of vanished writers as aborted.
std::unique_ptr<Database> open_for_writing(const std::string& path);
// Throws if SQLite finds a damaged page.
void check_pages(const Database& database);
// The last writer leaves one file, with no -wal beside it, that can be copied and be read from a
// read-only folder. With another process still there this does nothing, and that one does it.
void leave_plain_file(Database& database) noexcept;

}  // namespace versieve::db
