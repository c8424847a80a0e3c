#include "tests/gpu/cublaslt_peer.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "model/words/assert.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <dlfcn.h>

namespace versieve::testing {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr int kAlgorithms = 8;

void check_status(cublasStatus_t status) {
  VERSIEVE_ASSERT(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt takes plain bf16 products");
}

struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) describe = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) lay_out = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) prefer = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) rank = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  template <class F>
  static bool find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
  bool load(void* library) {
    return find(library, "cublasLtCreate", create) && find(library, "cublasLtDestroy", destroy) &&
           find(library, "cublasLtMatmulDescCreate", describe) &&
           find(library, "cublasLtMatmulDescSetAttribute", set_description) &&
           find(library, "cublasLtMatrixLayoutCreate", lay_out) &&
           find(library, "cublasLtMatmulPreferenceCreate", prefer) &&
           find(library, "cublasLtMatmulPreferenceSetAttribute", set_preference) &&
           find(library, "cublasLtMatmulAlgoGetHeuristic", rank) &&
           find(library, "cublasLtMatmul", multiply);
  }
};

// Descriptions live as long as the program: a test's few.
struct Product {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> ranked;
};

class LoadedPeer final : public CublasLtPeer {
 public:
  explicit LoadedPeer(const Functions& functions) : lt_(functions) {
    check_status(lt_.create(&handle_));
    kernels::check(cudaMalloc(&workspace_, kWorkspaceBytes));
  }
  ~LoadedPeer() override {
    lt_.destroy(handle_);
    cudaFree(workspace_);
  }
  bool multiply(std::int64_t n, std::int64_t k, std::int64_t m, const Bf16* x, const Bf16* w,
                Bf16* y, int rank, cudaStream_t stream) override {
    const Product& p = product(n, k, m);
    if (rank >= static_cast<int>(p.ranked.size())) {
      return false;
    }
    const float one = 1.0F, zero = 0.0F;
    check_status(lt_.multiply(handle_, p.product, &one, w, p.w, x, p.x, &zero, y, p.y, y, p.y,
                              &p.ranked[static_cast<std::size_t>(rank)].algo, workspace_,
                              kWorkspaceBytes, stream));
    return true;
  }

 private:
  // As columns the matrices are y [M, N] = w [K, M]^T x [K, N].
  const Product& product(std::int64_t n, std::int64_t k, std::int64_t m) {
    Product& p = products_[{n, k, m}];
    if (p.product != nullptr) {
      return p;
    }
    check_status(lt_.describe(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t turned = CUBLAS_OP_T;
    check_status(
        lt_.set_description(p.product, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned)));
    const auto rows = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
    check_status(lt_.lay_out(&p.w, CUDA_R_16BF, rows(k), rows(m), k));
    check_status(lt_.lay_out(&p.x, CUDA_R_16BF, rows(k), rows(n), k));
    check_status(lt_.lay_out(&p.y, CUDA_R_16BF, rows(m), rows(n), m));
    cublasLtMatmulPreference_t preference = nullptr;
    check_status(lt_.prefer(&preference));
    check_status(lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                    &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
    p.ranked.resize(kAlgorithms);
    int found = 0;
    check_status(lt_.rank(handle_, p.product, p.w, p.x, p.y, p.y, preference, kAlgorithms,
                          p.ranked.data(), &found));
    p.ranked.resize(static_cast<std::size_t>(found));
    return p;
  }

  Functions lt_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Product> products_;
};

}  // namespace

std::unique_ptr<CublasLtPeer> try_cublaslt_peer() {
  const char* named = std::getenv("VERSIEVE_CUBLASLT");
  const char* file = named == nullptr ? "libcublasLt.so.13" : named;
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  Functions functions;
  if (library == nullptr || !functions.load(library)) {
    std::printf("without cuBLASLt: %s cannot be loaded\n", file);
    return nullptr;
  }
  return std::make_unique<LoadedPeer>(functions);
}

}  // namespace versieve::testing
#else
namespace versieve::testing {

std::unique_ptr<CublasLtPeer> try_cublaslt_peer() {
  std::puts("without cuBLASLt: this build's CUDA toolkit has no cublasLt.h");
  return nullptr;
}

}  // namespace versieve::testing
#endif
