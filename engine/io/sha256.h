// SHA-256 (FIPS 180-4): says which file a number is of, so that anyone can check it with sha256sum.
// OpenSSL's libcrypto computes it, with the processor's own instructions where there are such.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace versieve::engine {

// Of bytes that come piece by piece. Throws Error(kEnvironment) where libcrypto has no SHA-256.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  std::string hex() const;  // 64 lower-case digits, of what was added so far

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(std::string_view bytes);
// Throws Error(kBadInput) for a file that cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace versieve::engine
