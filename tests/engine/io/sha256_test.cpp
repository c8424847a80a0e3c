// SHA-256 of texts, of pieces and of files.
#include "engine/io/sha256.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "model/words/error.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

// FIPS 180-4's own examples; the long one runs through whole blocks, the short ones through the
// last alone.
TEST_CASE("the digest is SHA-256") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a digest does not depend on the pieces that its bytes come in") {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    bytes += static_cast<char>(i * i + i / 7);
  }
  for (const std::size_t piece : {1, 3, 63, 64, 65, 127, 128, 500, 1000}) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      hash.add(std::string_view(bytes).substr(at, piece));
    }
    CAPTURE(piece);
    CHECK(hash.hex() == sha256_hex(bytes));
  }
}

TEST_CASE("a file's digest is its bytes', and a file that is not there is said") {
  const test::TempFolder folder;
  const std::string bytes(3 << 20, 'x');  // more than one read
  std::ofstream(folder / "a") << bytes;
  std::ofstream(folder / "none");
  CHECK(sha256_of_file(folder / "a") == sha256_hex(bytes));
  CHECK(sha256_of_file(folder / "none") == sha256_hex(""));
  CHECK_THROWS_WITH(sha256_of_file(folder / "b"), Catch::Contains("cannot be read"));
}
