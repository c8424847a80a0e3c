// Who writes, and when: names for runs, times of day, and whether a run's writer still lives.
#pragma once

#include <string>

namespace versieve::db {

std::string utc_now();      // "2026-11-20T21:04:05Z"
std::string random_uuid();  // version 4

// This process, so that another can tell whether it has ended: boot, process namespace, process
// number and its start time.
std::string this_writer();
// True only if it is certain: the machine was restarted, or no such process is here. A process in
// another container cannot be seen and counts as alive.
bool writer_is_gone(const std::string& writer);

}  // namespace versieve::db
