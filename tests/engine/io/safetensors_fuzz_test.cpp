// Twenty thousand mutations of a small valid file: each loads or is refused with a sentence, and
// what loads keeps the promises of the format.
#include <catch2/catch.hpp>

#include "model/words/error.h"
#include "tests/engine/io/safetensors_literal.h"
#include "tests/support/random_source.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

constexpr int kMutations = 20000;

FileBytes valid_file() {
  return file_bytes(R"({"__metadata__":{"k":"3"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":)"
                    R"([0,24]},"b":{"dtype":"I32","shape":[2],"data_offsets":[24,32]},)"
                    R"("c":{"dtype":"F4","shape":[2,2],"data_offsets":[32,34]}} )",
                    34);
}

// Texts that steer a mutation to the header's interesting places.
const char* const kPieces[] = {"{",
                               "}",
                               "[",
                               "]",
                               "\"",
                               ",",
                               ":",
                               "-1",
                               "0",
                               "1e9",
                               "0.5",
                               "null",
                               "true",
                               "\"F64\"",
                               "\"U8\"",
                               "[0,0]",
                               "18446744073709551615",
                               "9223372036854775808",
                               "\\u0000",
                               "\\ud800",
                               "\xc3\x28",
                               "\"a\":",
                               "__metadata__"};

void mutate(FileBytes& bytes, Random& random) {
  const std::int64_t size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t at = size == 0 ? 0 : random.below(size);
  switch (random.below(6)) {
    case 0:  // one byte
      if (size > 0) {
        bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(random.below(256));
      }
      return;
    case 1:  // cut
      bytes.resize(static_cast<std::size_t>(at));
      return;
    case 2:  // erase a stretch
      bytes.erase(bytes.begin() + at, bytes.begin() + std::min(size, at + random.below(9)));
      return;
    case 3: {  // insert a piece
      const std::string piece = kPieces[random.below(std::ssize(kPieces))];
      const std::byte* raw = reinterpret_cast<const std::byte*>(piece.data());
      bytes.insert(bytes.begin() + at, raw, raw + piece.size());
      return;
    }
    case 4:  // the header's length
      if (size >= 8) {
        const std::uint64_t length = static_cast<std::uint64_t>(random.below(size + 2));
        std::memcpy(bytes.data(), &length, 8);
      }
      return;
    default:  // a digit for a digit
      for (std::int64_t i = at; i < size; ++i) {
        std::byte& byte = bytes[static_cast<std::size_t>(i)];
        if (byte >= std::byte{'0'} && byte <= std::byte{'9'}) {
          byte = static_cast<std::byte>('0' + random.below(10));
          return;
        }
      }
  }
}

// Insertions and erasures move the header's end; half of the files get their length put right, so
// that the mutation reaches the parser.
void mend_length(FileBytes& bytes, std::size_t data_bytes) {
  if (bytes.size() >= 8 + data_bytes) {
    const std::uint64_t length = bytes.size() - 8 - data_bytes;
    std::memcpy(bytes.data(), &length, 8);
  }
}

}  // namespace

TEST_CASE("twenty thousand mutations load or are refused, and never crash") {
  Random random(20260721);
  int loaded = 0;
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    FileBytes bytes = valid_file();
    const std::int64_t times = 1 + random.below(3);
    for (std::int64_t t = 0; t < times; ++t) {
      mutate(bytes, random);
    }
    if (random.below(2) == 0) {
      mend_length(bytes, 34);
    }
    try {
      const SafetensorsFile file = parse(bytes);
      std::size_t total = 0;
      for (const auto& [name, view] : file.tensors()) {
        total += view.bytes.size();
        if (view.count() * bits_of(view.type) != static_cast<std::int64_t>(view.bytes.size()) * 8) {
          FAIL("a loaded tensor does not fill its bytes");
        }
      }
      if (total >= bytes.size()) {
        FAIL("loaded tensors are larger than the file");
      }
      ++loaded;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput ||
          std::string(error.what()).rfind("case: ", 0) != 0) {
        FAIL("a refusal without the file's name: " << error.what());
      }
      ++refused;
    }
  }
  CHECK(loaded > 1000);   // data bytes, names and metadata may change
  CHECK(refused > 1000);  // structure may not
}
