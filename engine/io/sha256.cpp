#include "engine/io/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/io/input_file.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kBlockBytes = 64;

// FIPS 180-4, 4.2.2: of the cube roots of the first 64 primes, the first 32 bits behind the point.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

// 6.2.2, step 1: the message's 16 words, then 48 mixed from them.
std::array<std::uint32_t, 64> schedule_of(const unsigned char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    for (std::size_t byte = 0; byte < 4; ++byte) {
      w[t] = w[t] << 8 | block[4 * t + byte];
    }
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t near = w[t - 2];
    const std::uint32_t far = w[t - 15];
    w[t] = (std::rotr(near, 17) ^ std::rotr(near, 19) ^ near >> 10) + w[t - 7] +
           (std::rotr(far, 7) ^ std::rotr(far, 18) ^ far >> 3) + w[t - 16];
  }
  return w;
}

void add_block(State& state, const unsigned char* block) {
  const std::array<std::uint32_t, 64> w = schedule_of(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State mixed = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i] += mixed[i];
  }
}

void add_blocks(State& state, const unsigned char* blocks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    add_block(state, blocks + i * kBlockBytes);
  }
}

#if defined(__x86_64__)

// CPUID leaf 7, EBX bit 29.
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

// The same by the processor's own rounds, four at a time. They take the state as two vectors, of
// the words a b e f and c d g h.
__attribute__((target("sha,sse4.1"))) void add_blocks_by_instructions(State& state,
                                                                      const unsigned char* blocks,
                                                                      std::size_t count) {
  const auto load = [](const void* at) __attribute__((target("sha,sse4.1"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(at));
  };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i dcba = _mm_shuffle_epi32(load(&state[0]), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);
  for (; count > 0; --count, blocks += kBlockBytes) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[16];
    for (std::size_t i = 0; i < 16; ++i) {
      if (i < 4) {
        w[i] = _mm_shuffle_epi8(load(blocks + 16 * i), big_endian);
      } else {
        w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                                  _mm_alignr_epi8(w[i - 1], w[i - 2], 4)),
                                    w[i - 1]);
      }
      const __m128i mixed = _mm_add_epi32(w[i], load(&kRound[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, mixed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(mixed, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

void add_many_blocks(State& state, const unsigned char* blocks, std::size_t count) {
  static const bool by_instructions = has_sha_instructions();
  (by_instructions ? add_blocks_by_instructions : add_blocks)(state, blocks, count);
}

#else

void add_many_blocks(State& state, const unsigned char* blocks, std::size_t count) {
  add_blocks(state, blocks, count);
}

#endif

// 5.1.1: a one bit, zeros, and the length in bits at the end of the last block.
void add_tail(State& state, std::string_view rest, std::uint64_t bytes) {
  std::array<unsigned char, 2 * kBlockBytes> tail{};
  std::memcpy(tail.data(), rest.data(), rest.size());
  tail[rest.size()] = 0x80;
  const std::size_t end = rest.size() + 9 <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
  for (std::size_t i = 0; i < 8; ++i) {
    tail[end - 1 - i] = static_cast<unsigned char>(bytes * 8 >> 8 * i);
  }
  add_blocks(state, tail.data(), end / kBlockBytes);
}

}  // namespace

void Sha256::add(std::string_view bytes) {
  bytes_ += bytes.size();
  if (!rest_.empty()) {
    const std::size_t taken = std::min(kBlockBytes - rest_.size(), bytes.size());
    rest_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (rest_.size() < kBlockBytes) {
      return;
    }
    add_blocks(state_, reinterpret_cast<const unsigned char*>(rest_.data()), 1);
  }
  const std::size_t whole = bytes.size() / kBlockBytes;
  add_many_blocks(state_, reinterpret_cast<const unsigned char*>(bytes.data()), whole);
  rest_ = bytes.substr(whole * kBlockBytes);
}

std::string Sha256::hex() const {
  State state = state_;
  add_tail(state, rest_, bytes_);
  std::string text;
  for (const std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[word >> shift & 0xf];
    }
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
