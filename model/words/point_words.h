// The words that say how a point was run and what came of it, and their texts in the database, in
// JSON and on the command line. `*_of` reads a text and throws Error(kBadInput), naming the known
// ones; `try_*_of` returns nothing instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace versieve {

enum class Dtype { kBf16, kF32, kF64, kUnstated };
enum class Backend { kCuda, kCpu, kSimulator, kImported };
// What L2 holds before a run: of the same buffers, of copies that take turns, of a flush, or of
// whatever ran before.
enum class CacheState { kWarm, kColdRotate, kColdFlush, kAsIs };
enum class LaunchMode { kStream, kGraph, kUnstated };
enum class PointStatus { kOk, kRefused, kFailed };
// Imported points are unchecked. At least: an imported acceptance of drafts of which some were cut
// short; nothing counts how many had each position, so that its mean is a lower bound for the draft
// that it names.
enum class Reliability { kOk, kThrottled, kSuspect, kUnchecked, kAtLeast };
enum class RunStatus { kRunning, kComplete, kAborted, kFailed };
// Of one counter: is it there, or why not?
enum class CounterStatus { kOk, kNan, kOutOfRange, kDropped, kDenied, kUnsupported, kOff };
// Of a run: could this process read the GPU's counters? Unstated in records that do not say.
enum class CounterState { kOk, kDenied, kUnsupported, kBusy, kOff, kUnstated };
// Of a run: did the counters count known kernels right before it?
enum class SelfCheckVerdict { kOk, kSuspect, kOff, kUnstated };

const char* name_of(Dtype dtype);         // "bf16", "f32", "f64", "unstated"
const char* name_of(Backend backend);     // "cuda", "cpu", "sim", "imported"
const char* name_of(CacheState state);    // "warm", "cold_rotate", "cold_flush", "as_is"
const char* name_of(LaunchMode mode);     // "stream", "graph", "unstated"
const char* name_of(PointStatus status);  // "ok", "refused", "failed"
const char* name_of(
    Reliability reliability);           // "ok", "throttled", "suspect", "unchecked", "at_least"
const char* name_of(RunStatus status);  // "running", "complete", "aborted", "failed"
// "ok", "nan", "out_of_range", "dropped", "denied", "unsupported", "off"
const char* name_of(CounterStatus status);
const char* name_of(CounterState state);        // "ok", "denied", "unsupported", "busy", "off", ""
const char* name_of(SelfCheckVerdict verdict);  // "ok", "suspect", "off", ""

Dtype dtype_of(std::string_view text);
Backend backend_of(std::string_view text);
CacheState cache_state_of(std::string_view text);
LaunchMode launch_mode_of(std::string_view text);
PointStatus point_status_of(std::string_view text);
Reliability reliability_of(std::string_view text);
RunStatus run_status_of(std::string_view text);
CounterStatus counter_status_of(std::string_view text);
CounterState counter_state_of(std::string_view text);
SelfCheckVerdict self_check_verdict_of(std::string_view text);

std::optional<Dtype> try_dtype_of(std::string_view text);
std::optional<Backend> try_backend_of(std::string_view text);

// Of an element; an unstated type's is taken to be two.
std::int64_t bytes_of(Dtype dtype);

}  // namespace versieve
