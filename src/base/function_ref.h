// A reference to something callable: what a function takes that calls it back before returning. Unlike std::function it
// owns nothing, so passing a lambda with many captures allocates no memory.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace lockstep {

template <class Signature>
class FunctionRef;

// The callable must outlive the reference: use it for parameters, not for members that stay.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_object_v<std::remove_reference_t<Callable>> && std::is_invocable_r_v<Result, Callable&, Args...>)
      FunctionRef(Callable&& callable)  // implicit, so that a lambda can be passed as it is
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace lockstep
