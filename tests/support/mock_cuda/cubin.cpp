#include "tests/support/mock_cuda/cubin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>

// Of libzstd.so.1, which compilers come with; its header is seldom there.
extern "C" {
unsigned long long ZSTD_getFrameContentSize(const void* source, std::size_t bytes);
std::size_t ZSTD_findFrameCompressedSize(const void* source, std::size_t bytes);
std::size_t ZSTD_decompress(void* out, std::size_t room, const void* source, std::size_t bytes);
unsigned ZSTD_isError(std::size_t code);
}

namespace versieve::mock_cuda {
namespace {

using Bytes = std::span<const unsigned char>;
using Kernels = std::unordered_map<std::string, KernelFacts>;

template <class E>
E read(Bytes bytes, std::size_t at) {
  E value{};
  if (at + sizeof value <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
  }
  return value;
}

struct Section {
  std::string name;
  std::uint32_t info = 0;
  std::size_t begin = 0, bytes = 0;
};

// Of an ELF file of 64 bits.
std::vector<Section> sections_of(Bytes elf) {
  const std::size_t table = read<std::uint64_t>(elf, 40);
  const std::size_t entry = read<std::uint16_t>(elf, 58);
  const std::size_t count = read<std::uint16_t>(elf, 60);
  const std::size_t names_at = table + read<std::uint16_t>(elf, 62) * entry;
  if (table + count * entry > elf.size()) {
    return {};
  }
  const std::size_t names = read<std::uint64_t>(elf, names_at + 24);
  std::vector<Section> sections;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = table + i * entry;
    Section section{.name = {},
                    .info = read<std::uint32_t>(elf, at + 44),
                    .begin = read<std::uint64_t>(elf, at + 24),
                    .bytes = read<std::uint64_t>(elf, at + 32)};
    for (std::size_t c = names + read<std::uint32_t>(elf, at); c < elf.size() && elf[c] != 0; ++c) {
      section.name += static_cast<char>(elf[c]);
    }
    sections.push_back(std::move(section));
  }
  return sections;
}

// Entries of a format, an attribute and a value, or of so many bytes (format 4).
void read_attributes(Bytes info, KernelFacts& kernel) {
  constexpr int kSized = 4;
  constexpr int kParameter = 0x17, kLargeParameter = 0x45, kMaxThreads = 0x05;
  std::map<int, std::size_t> sizes;  // by ordinal
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const int format = info[at];
    const int attribute = info[at + 1];
    const std::size_t bytes = format == kSized ? read<std::uint16_t>(info, at + 2) : 0;
    at += 4;
    const int ordinal = read<std::uint16_t>(info, at + 4);
    if (format == kSized && attribute == kParameter) {
      sizes[ordinal] = read<std::uint32_t>(info, at + 8) >> 18;
    } else if (format == kSized && attribute == kLargeParameter) {
      sizes[ordinal] = read<std::uint32_t>(info, at + 8);
    } else if (format == kSized && attribute == kMaxThreads) {
      kernel.max_threads =
          static_cast<int>(read<std::uint32_t>(info, at) * read<std::uint32_t>(info, at + 4) *
                           read<std::uint32_t>(info, at + 8));
    }
    at += bytes;
  }
  for (const auto& [ordinal, size] : sizes) {
    kernel.parameter_bytes.push_back(size);
  }
}

void read_cubin(Bytes elf, Kernels& kernels) {
  const std::string kInfo = ".nv.info.", kShared = ".nv.shared.", kCode = ".text.";
  for (const Section& section : sections_of(elf)) {
    const auto follows = [&](const std::string& prefix) {
      return section.name.rfind(prefix, 0) == 0;
    };
    if (section.begin + section.bytes > elf.size() && !follows(kShared)) {
      continue;
    }
    if (follows(kInfo)) {
      read_attributes(elf.subspan(section.begin, section.bytes),
                      kernels[section.name.substr(kInfo.size())]);
    } else if (follows(kShared) && !follows(".nv.shared.reserved.")) {
      // Its first KiB is the system's on compute capability 9.0.
      kernels[section.name.substr(kShared.size())].static_shared_bytes =
          section.bytes - std::min<std::size_t>(section.bytes, 1024);
    } else if (follows(kCode)) {
      kernels[section.name.substr(kCode.size())].registers = static_cast<int>(section.info >> 24);
    }
  }
}

bool begins_with(Bytes bytes, const char (&magic)[5]) {
  return bytes.size() > 64 && std::memcmp(bytes.data(), magic, 4) == 0;
}

}  // namespace

std::unordered_map<std::string, KernelFacts> kernels_of(const unsigned char* image) {
  // A header of 16 bytes: magic, version, its own size (16 bits), what follows it (64 bits).
  const Bytes header(image, 16);
  const Bytes all(image, read<std::uint16_t>(header, 6) + read<std::uint64_t>(header, 8));
  Kernels kernels;
  for (std::size_t at = 0; at + 64 < all.size();) {
    const Bytes rest = all.subspan(at);
    if (begins_with(rest,
                    "\x7F"
                    "ELF")) {
      read_cubin(rest, kernels);
    } else if (begins_with(rest, "\x28\xB5\x2F\xFD")) {
      const std::size_t packed = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
      const unsigned long long bytes = ZSTD_getFrameContentSize(rest.data(), rest.size());
      if (ZSTD_isError(packed) == 0 && bytes < (1ULL << 31)) {
        std::vector<unsigned char> plain(bytes);
        const std::size_t got = ZSTD_decompress(plain.data(), plain.size(), rest.data(), packed);
        if (ZSTD_isError(got) == 0 && begins_with(plain,
                                                  "\x7F"
                                                  "ELF")) {
          read_cubin(plain, kernels);
        }
        at = (at + packed) / 4 * 4;
        continue;
      }
    }
    at += 4;  // entries and their headers are aligned on more
  }
  return kernels;
}

}  // namespace versieve::mock_cuda
