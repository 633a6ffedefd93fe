// SHA-256 through OpenSSL's EVP interface, which picks the processor's SHA instructions.
#include "cli/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <bit>

#include "base/error.h"

namespace lockstep {
namespace {

void require(int ok) {
  if (ok != 1) fail(ErrorKind::Internal, "OpenSSL cannot compute SHA-256");
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::add(std::span<const float> values) {
  require(EVP_DigestUpdate(context_.get(), values.data(), values.size_bytes()));
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace lockstep
