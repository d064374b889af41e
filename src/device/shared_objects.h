// SharedObjects: objects that several ops use, such as plans of libraries that take long to make.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

namespace carillon {

/// Owner of objects by type and key. Used by the main thread.
class SharedObjects {
 public:
  /// The object with this type and key. The first request calls `make`; later requests return the same object. `make`
  /// may return null; it is not called again then either.
  template <typename T>
  const T* get(const std::string& key, const std::function<std::unique_ptr<T>()>& make) {
    const std::pair name{std::type_index(typeid(T)), key};
    const auto found = objects_.find(name);
    if (found != objects_.end()) return static_cast<const T*>(found->second.get());
    std::shared_ptr<T> made = make();
    objects_.emplace(name, made);
    return made.get();
  }

  std::size_t count() const { return objects_.size(); }

 private:
  std::map<std::pair<std::type_index, std::string>, std::shared_ptr<void>> objects_;
};

}  // namespace carillon
