#include "engine/io/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/io/input_file.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

void check(int done) {
  if (done != 1) {
    throw Error(ExitCode::kEnvironment, "this machine's libcrypto computes no SHA-256");
  }
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ != nullptr ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
}

void Sha256::add(std::string_view bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

// Ended on a copy: more bytes may follow.
std::string Sha256::hex() const {
  Sha256 ended;
  check(EVP_MD_CTX_copy_ex(ended.context_.get(), context_.get()));
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(ended.context_.get(), digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 0xf];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  constexpr std::int64_t kPieceBytes = 1 << 20;
  InputFile file(path);
  std::vector<char> piece(static_cast<std::size_t>(std::min(file.size(), kPieceBytes)));
  Sha256 hash;
  for (std::int64_t left = file.size(); left > 0;) {
    const std::int64_t bytes = std::min(left, kPieceBytes);
    file.read(piece.data(), bytes);
    hash.add({piece.data(), static_cast<std::size_t>(bytes)});
    left -= bytes;
  }
  return hash.hex();
}

}  // namespace versieve::engine
