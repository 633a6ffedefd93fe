// Memory for weights, activations and caches: 64-byte aligned (one cache line, one AVX-512 vector), zero-filled, owned.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/checked.h"

namespace lockstep {

// Gives a mapping of `bytes` back.
struct Unmap {
  size_t bytes = 0;
  void operator()(void* memory) const noexcept;
};
using PageBlock = std::unique_ptr<void, Unmap>;

// Zero pages, which the kernel provides on the NUMA node of the thread that first writes them. Throws std::bad_alloc.
PageBlock map_pages(size_t bytes);

// A fixed-size array of trivially copyable T, all zero at first. Movable. Not thread-safe beyond what its elements are.
template <class T>
class AlignedBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : block_(std::move(other.block_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    block_ = std::move(other.block_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  explicit AlignedBuffer(size_t size) : size_(size) {
    const auto bytes = checked_mul(size, sizeof(T));
    if (!bytes) throw std::bad_alloc();
    if (size > 0) block_ = map_pages(*bytes);
  }

  T* data() { return static_cast<T*>(block_.get()); }
  const T* data() const { return static_cast<const T*>(block_.get()); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  PageBlock block_;
  size_t size_ = 0;
};

}  // namespace lockstep
