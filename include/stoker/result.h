// A value or an Error: how every operation of the library that can fail returns. Method names are
// those of std::expected, which C++20 does not have.
#pragma once

#include <string_view>
#include <utility>
#include <variant>

#include "stoker/error.h"

namespace stoker {

/// A T, or why there is none. Not thread-safe, as any value. value() of an error, and error() of a
/// value, throw std::bad_variant_access: ask has_value() first.
template <class T>
class [[nodiscard]] Result {
 public:
  // A function that returns Result<T> returns a T or an Error as it is.
  // NOLINTNEXTLINE(google-explicit-constructor): see above
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): see above
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

  /// The same result; an error gets "context: " in front of its message.
  Result with(std::string_view context) && {
    if (has_value()) return std::move(*this);
    return error().with(context);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success, or why not.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as Result<T>
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

  /// As Result<T>::with.
  Result with(std::string_view context) && {
    if (has_value()) return {};
    return std::get<1>(state_).with(context);
  }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace stoker
