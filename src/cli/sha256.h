// SHA-256 of rows of floats, as the commands print it: over their little-endian bytes in the order they are added.
#pragma once

#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace lockstep {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const float> values);
  // 64 hexadecimal digits of everything added. The end: nothing may be added after it.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace lockstep
