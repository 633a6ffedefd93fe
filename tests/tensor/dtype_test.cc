// The table of formats: sizes by what their blocks are made of, names and ids that find their format.
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tensor/tensor.h"

namespace lockstep {
namespace {

TEST(DTypes, NamesAndIdsAreUnique) {
  std::set<std::string_view> names;
  for (const DTypeInfo& format : dtype_table()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(&info(format.dtype), &format) << format.name;
    EXPECT_NE(format.ggml_type.has_value(), format.mlx.has_value()) << format.name;
    if (!format.ggml_type) continue;
    EXPECT_EQ(dtype_from_ggml(*format.ggml_type), format.dtype) << format.name;
  }
  EXPECT_EQ(dtype_from_ggml(4), std::nullopt);
  EXPECT_EQ(dtype_from_ggml(0xffffffff), std::nullopt);
}

// Bits a weight, counted by hand from what a block holds.
TEST(DTypes, BlocksHaveTheBytesOfTheirParts) {
  struct Sizes {
    DType dtype;
    int64_t elements, bytes;
  };
  for (const auto& [dtype, elements, bytes] : std::vector<Sizes>{{DType::Q2_K, 256, 16 + 64 + 2 * 2},
                                                                 {DType::Q3_K, 256, 32 + 64 + 12 + 2},
                                                                 {DType::Q4_K, 256, 2 * 2 + 12 + 128},
                                                                 {DType::Q5_K, 256, 2 * 2 + 12 + 32 + 128},
                                                                 {DType::Q6_K, 256, 128 + 64 + 16 + 2},
                                                                 {DType::IQ4_NL, 32, 2 + 16},
                                                                 {DType::IQ4_XS, 256, 2 + 2 + 4 + 128},
                                                                 {DType::MXFP4, 32, 1 + 16},
                                                                 {DType::MlxMxfp4, 32, 1 + 16},
                                                                 {DType::MlxMxfp8, 32, 1 + 32},
                                                                 {DType::MlxNvfp4, 16, 1 + 8}}) {
    EXPECT_EQ(info(dtype).block_elements, elements) << info(dtype).name;
    EXPECT_EQ(info(dtype).block_bytes, bytes) << info(dtype).name;
    EXPECT_EQ(row_bytes(dtype, 3 * elements), 3 * bytes) << info(dtype).name;
  }
}

TEST(DTypes, EveryAffineFormatIsFound) {
  std::set<DType> found;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      for (const auto& [scales, name, bytes] :
           {std::tuple{DType::F16, "F16", 2}, std::tuple{DType::BF16, "BF16", 2}, std::tuple{DType::F32, "F32", 4}}) {
        const auto dtype = mlx_dtype(MlxMode::Affine, bits, group, scales);
        ASSERT_TRUE(dtype.has_value()) << bits << "/" << group << " " << name;
        EXPECT_TRUE(found.insert(*dtype).second);
        const DTypeInfo& format = info(*dtype);
        EXPECT_EQ(format.name, "MLX affine" + std::to_string(bits) + "/" + std::to_string(group) + " " + name);
        EXPECT_EQ(format.block_elements, group);
        EXPECT_EQ(format.block_bytes, 2 * bytes + group * bits / 8);
        ASSERT_TRUE(format.mlx.has_value());
        EXPECT_EQ(format.mlx->mode, MlxMode::Affine);
        EXPECT_EQ(format.mlx->bits, bits);
        EXPECT_EQ(format.mlx->scales, scales);
        EXPECT_EQ(format.mlx->scale_bytes, bytes);
        EXPECT_EQ(format.mlx->bias_bytes, bytes);
        EXPECT_EQ(format.mlx->codes_at(), 2 * bytes);
      }
    }
  }
}

TEST(DTypes, TheOtherModesHaveOneFormatEach) {
  for (const DType scales : {DType::F32, DType::BF16}) {  // not looked at
    EXPECT_EQ(mlx_dtype(MlxMode::Mxfp4, 4, 32, scales), DType::MlxMxfp4);
    EXPECT_EQ(mlx_dtype(MlxMode::Mxfp8, 8, 32, scales), DType::MlxMxfp8);
    EXPECT_EQ(mlx_dtype(MlxMode::Nvfp4, 4, 16, scales), DType::MlxNvfp4);
  }
  for (const DType dtype : {DType::MlxMxfp4, DType::MlxMxfp8, DType::MlxNvfp4}) {
    ASSERT_TRUE(info(dtype).mlx.has_value());
    EXPECT_EQ(info(dtype).mlx->codes_at(), 1);
    EXPECT_EQ(info(dtype).mlx->bias_bytes, 0);
  }
}

TEST(DTypes, WhatDoesNotExistIsNotFound) {
  for (const int bits : {-1, 0, 1, 7, 9, 16}) EXPECT_EQ(mlx_dtype(MlxMode::Affine, bits, 64, DType::F16), std::nullopt);
  for (const int group : {0, 16, 33, 256}) EXPECT_EQ(mlx_dtype(MlxMode::Affine, 4, group, DType::F16), std::nullopt);
  for (const DType scales : {DType::Q4_0, DType::MlxMxfp4}) {
    EXPECT_EQ(mlx_dtype(MlxMode::Affine, 4, 64, scales), std::nullopt);
  }
  EXPECT_EQ(mlx_dtype(MlxMode::Mxfp4, 8, 32, DType::F16), std::nullopt);
  EXPECT_EQ(mlx_dtype(MlxMode::Mxfp4, 4, 64, DType::F16), std::nullopt);
  EXPECT_EQ(mlx_dtype(MlxMode::Mxfp8, 4, 32, DType::F16), std::nullopt);
  EXPECT_EQ(mlx_dtype(MlxMode::Nvfp4, 4, 32, DType::F16), std::nullopt);
}

}  // namespace
}  // namespace lockstep
