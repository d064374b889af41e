// RAII for HDF5: IDs with one owner, a lock around all calls, and failures as one-line errors.
#pragma once

#define H5_USE_110_API  // newer HDF5 versions then keep the API of version 1.10
#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon::hdf5 {

/// An ID of any kind. H5Idec_ref closes the object with the last reference.
using Id = Handle<hid_t, H5Idec_ref, H5I_INVALID_HID>;

/// Held around all HDF5 calls. It admits one thread at a time, because the library may lack thread safety, and it
/// suppresses the printing of error stacks.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t old_function_ = nullptr;
  void* old_data_ = nullptr;
};

/// The innermost line of the HDF5 error stack.
std::string last_error();

/// Throws Error(code) for a negative return value: "<what> (HDF5: <reason>)".
class Checker {
 public:
  Checker(ExitCode code, std::string subject) : code_(code), subject_(std::move(subject)) {}

  Id id(hid_t value, std::string_view what) const {
    if (value < 0) refuse(what);
    return Id(value);
  }
  void done(herr_t status, std::string_view what) const {
    if (status < 0) refuse(what);
  }
  /// Throws "<subject>: <what>" with the reason of HDF5 if there is one.
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  ExitCode code_;
  std::string subject_;
};

/// File access properties for a file in memory that grows by `increment_bytes`.
Id memory_file_access(const Checker& check, std::size_t increment_bytes);

}  // namespace carillon::hdf5
