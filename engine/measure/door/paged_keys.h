// Keys and values as serving engines keep them: in pages, with a table of a request's pages.
#pragma once

#include <array>

#include "engine/measure/door/family.h"

namespace versieve::engine {

// Instead of k and v, in the families that read them [L, G, d]: token t of L = context_len lies in
// page page_table[t / page], at t mod page. Pages are [P, page, G, d], or [P, G, page, d] where
// page_layout is HND. Entries past the last page that is needed are ignored.
inline constexpr std::array<DoorTensor, 3> kPagedInputs = {
    {{"k_pages", "float", "P,page,G,d", false},
     {"v_pages", "float", "P,page,G,d", false},
     {"page_table", "I32", "T", false}}};
inline constexpr std::array<DoorKey, 2> kPagedKeys = {
    {{"context_len", "L, where keys lie in pages"},
     {"page_layout", "NHD (or left out) or HND, where keys lie in pages"}}};

bool takes_pages(const DoorFamily& family);  // reads k [L, G, d]

// The file with k and v side by side, bit for bit, in place of their pages; as it is where it has
// no page_table. What is said of k and v from then on says that they came from pages. Throws
// Error(kBadInput), also where pages that the family reads are missing. REQUIRES: takes_pages().
SafetensorsFile with_contiguous_keys(SafetensorsFile file, const DoorFamily& family);

}  // namespace versieve::engine
