// SHA-256 (FIPS 180-4) of a text: says which file a run was imported from, so that anyone can check
// it with sha256sum.
#pragma once

#include <string>
#include <string_view>

namespace versieve::engine {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits

}  // namespace versieve::engine
