// nsa_verify for the tokens of a prompt: one sequence's consecutive rows, whose keys, values and
// compressed tokens lie in the caches behind the committed ones already, every layer choosing its
// own blocks. The same rules and, in bf16, the same bits as any other form (README.md), so that
// nobody can tell afterwards how a prompt was read.
#pragma once

#include "kernels/nsa_verify/params.h"
#include "kernels/ops.h"
#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#endif

namespace versieve::kernels {

// A prompt's rows are a call of nsa_verify whose tree is a chain that lies in the caches:
// k_tree = k + L G d, k_cmp_tree = k_cmp + Lc G d, values likewise, E the compressed tokens that
// the chain completes; refresh, exact groups, nothing imposed, no importance asked for. Of caches
// in pages (both tables) the chain's rows lie in its pages and, for a CPU, in the tree's rows too.
//
// Whether there is a form for such rows on these ops: on a CPU nsa_verify itself, whatever the
// shape; on a GPU in bf16 the shapes of prompt_takes.
template <class T>
bool has_nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p);
// REQUIRES: has_nsa_prompt. Fills out and indices.
template <class T>
void nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p);
// Scratch memory, in bytes, that no such call exceeds of this shape with so many rows or fewer, up
// to this call's last one; 0 where none is taken and on a CPU.
template <class T>
std::int64_t nsa_prompt_bytes(Ops<T>& ops, const NsaVerifyParams<T>& p);
// Scratch memory for that call grows now if it must: before arguments are made that name it
// (prepare_nsa_step). REQUIRES: has_nsa_prompt.
template <class T>
void reserve_nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p);

#ifdef VERSIEVE_HAS_CUDA
// Head size a multiple of 16 up to 128, H/G <= 16, B/s = 4 and l/s = 2, B a power of two from 16
// to 4096, contexts to some 100K tokens of 64-token blocks.
bool prompt_takes(const NsaVerifyParams<Bf16>& p);
// REQUIRES: prompt_takes(p). Bytes that the launch needs, 256-byte aligned.
std::size_t prompt_scratch_bytes(const NsaVerifyParams<Bf16>& p);
// nsa_prompt_bytes on a GPU. The host alone.
std::size_t most_prompt_scratch_bytes(const NsaVerifyParams<Bf16>& p);
// REQUIRES: prompt_takes(p), rows that lie as above. Enqueues; never waits or allocates.
void launch_nsa_prompt(const NsaVerifyParams<Bf16>& p, const LaunchContext& context);
#endif

}  // namespace versieve::kernels
