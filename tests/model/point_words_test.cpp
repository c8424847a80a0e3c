// The texts of the words that say how a point was run are those of databases, JSON and options.
#include "model/words/point_words.h"

#include <catch2/catch.hpp>
#include <string>

#include "model/words/error.h"

using namespace versieve;

namespace {

template <class Word>
void check_texts(Word (*word_of)(std::string_view), std::initializer_list<const char*> texts) {
  int place = 0;
  for (const char* text : texts) {
    CAPTURE(text);
    CHECK(word_of(text) == static_cast<Word>(place++));
    CHECK(std::string(name_of(word_of(text))) == text);
  }
  for (const char* text : {"", "nothing", "OK", "warm "}) {
    CAPTURE(text);
    try {
      word_of(text);
      FAIL("read as a word");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kBadInput);
      CHECK(std::string(e.what()).find(*texts.begin()) != std::string::npos);  // names the known
    }
  }
}

}  // namespace

TEST_CASE("every word of a point has one text and is read back from it") {
  check_texts(dtype_of, {"bf16", "f32", "f64", "unstated"});
  check_texts(backend_of, {"cuda", "cpu", "sim", "imported"});
  check_texts(cache_state_of, {"warm", "cold_rotate", "cold_flush", "as_is"});
  check_texts(launch_mode_of, {"stream", "graph", "unstated"});
  check_texts(point_status_of, {"ok", "refused", "failed"});
  check_texts(reliability_of, {"ok", "throttled", "suspect", "unchecked", "at_least"});
  check_texts(run_status_of, {"running", "complete", "aborted", "failed"});
  check_texts(counter_status_of,
              {"ok", "nan", "out_of_range", "dropped", "denied", "unsupported", "off"});
}

TEST_CASE("what a run need not state has the empty text") {
  for (const char* text : {"ok", "denied", "unsupported", "busy", "off", ""}) {
    CHECK(std::string(name_of(counter_state_of(text))) == text);
  }
  for (const char* text : {"ok", "suspect", "off", ""}) {
    CHECK(std::string(name_of(self_check_verdict_of(text))) == text);
  }
  CHECK(counter_state_of("") == CounterState::kUnstated);
  CHECK(self_check_verdict_of("") == SelfCheckVerdict::kUnstated);
  CHECK_THROWS_WITH(self_check_verdict_of("fine"),
                    "unknown self-check 'fine'; known are ok, suspect, off");
  CHECK_THROWS_AS(counter_state_of("dropped"), Error);
}

TEST_CASE("what may be no word is asked for") {
  CHECK(try_dtype_of("f32") == Dtype::kF32);
  CHECK(!try_dtype_of("fp8"));
  CHECK(try_backend_of("sim") == Backend::kSimulator);
  CHECK(!try_backend_of("auto"));
  CHECK(bytes_of(Dtype::kBf16) == 2);
  CHECK(bytes_of(Dtype::kF32) == 4);
  CHECK(bytes_of(Dtype::kF64) == 8);
}
