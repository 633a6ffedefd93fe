// The vector tables, written once and compiled for AVX2 and for AVX-512: foreach_target.h includes this file again for
// each target, and the -inl.h files are compiled anew each time, in that target's own namespace and with its
// instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // below AVX2 the reference table runs

#include "kernels/decode.h"
#include "kernels/tables.h"

// Keep after the ordinary includes: whatever a target region includes is compiled with that target's instructions.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
namespace HWY_NAMESPACE {

constexpr Kernels kTable = {.isa = HWY_TARGET == HWY_AVX2 ? "avx2" : "avx512",
                            .dequantize = DequantizeRow,
                            .matmul = Matmul,
                            .rms_norm = RmsNorm,
                            .rope = Rope,
                            .attend = Attend,
                            .silu_mul = ActivateMul<Silu>,
                            .gelu_mul = ActivateMul<Gelu>,
                            .soft_cap = SoftCapRow,
                            .scale = ScaleRow,
                            .sigmoid_mul = plain_sigmoid_mul,
                            .delta_step = plain_delta_step,
                            .add = AddRow,
                            .from_float = FromFloat};

}  // namespace HWY_NAMESPACE
}  // namespace lockstep
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace lockstep {

#if HWY_TARGETS & HWY_AVX2
const Kernels* avx2_kernels() {
  return &N_AVX2::kTable;
}
#else
const Kernels* avx2_kernels() {
  return nullptr;
}
#endif

#if HWY_TARGETS & HWY_AVX3
const Kernels* avx512_kernels() {
  return &N_AVX3::kTable;
}
#else
const Kernels* avx512_kernels() {
  return nullptr;
}
#endif

}  // namespace lockstep
#endif
