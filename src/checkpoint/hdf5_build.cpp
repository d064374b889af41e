// Builds the HDF5 image of a checkpoint: core driver without backing store, float32, chunks with fletcher32, no times.
#include <malloc.h>

#include <algorithm>
#include <new>

#include "src/checkpoint/checkpoint_format.h"
#include "src/checkpoint/hdf5_support.h"
#include "src/core/resources.h"

namespace carillon {
namespace {

using hdf5::Id;

/// Returns the shape of a chunk. A chunk contains whole trailing dimensions as long as they fit. The next dimension is
/// divided evenly, and all earlier dimensions are 1.
std::vector<hsize_t> chunk_shape(const std::vector<hsize_t>& shape) {
  std::vector<hsize_t> chunk(shape.size(), 1);
  hsize_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const hsize_t most = std::max<hsize_t>(max_chunk_elements / elements, 1);
    const hsize_t count = (shape[i] + most - 1) / most;
    chunk[i] = (shape[i] + count - 1) / count;
    if (count > 1) break;
    elements *= shape[i];
  }
  return chunk;
}

std::size_t value_bytes(const CheckpointState& state) {
  std::size_t count = 0;
  const auto add = [&](const std::vector<NamedArray>& arrays) {
    for (const auto& array : arrays) count += array.values.size();
  };
  add(state.variables);
  add(state.moving_averages);
  for (const auto& [slot, arrays] : state.optimizer) add(arrays);
  add(state.buffers);
  return count * sizeof(float);
}

/// The memory of a file that HDF5 builds and grows in memory. Some bytes before the file are reserved for the caller.
struct FileMemory {
  static constexpr std::size_t increment_bytes = 1 << 20;

  std::size_t front_bytes;
  std::vector<std::byte> bytes;

  /// Also reserves memory for HDF5's headers. Otherwise HDF5 would have to enlarge the memory by a copy, and would need
  /// twice as much memory during the copy.
  FileMemory(std::size_t front, std::size_t expected_bytes) : front_bytes(front) {
    try {
      bytes.reserve(front + expected_bytes + expected_bytes / 64 + 2 * increment_bytes);
    } catch (const std::bad_alloc&) {  // ignored: HDF5 will request the memory and report the error
    }
  }

  static void* resize(void* /*memory*/, size_t size, H5FD_file_image_op_t /*operation*/, void* self) {
    auto& [front_bytes, bytes] = *static_cast<FileMemory*>(self);
    try {
      bytes.resize(front_bytes + size);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    return bytes.data() + front_bytes;
  }
  static herr_t keep(void* /*memory*/, H5FD_file_image_op_t /*operation*/, void* /*self*/) { return 0; }
  static void* same(void* self) { return self; }
  static herr_t keep_self(void* /*self*/) { return 0; }

  H5FD_file_image_callbacks_t callbacks() {
    return {.image_malloc = nullptr,
            .image_memcpy = nullptr,
            .image_realloc = resize,
            .image_free = keep,
            .udata_copy = same,
            .udata_free = keep_self,
            .udata = this};
  }
};

class Builder {
 public:
  Builder(std::size_t expected_bytes, std::size_t front_bytes)
      : memory_(front_bytes, expected_bytes),
        links_(check_.id(H5Pcreate(H5P_LINK_CREATE), "no link list")),
        file_(create_file()) {
    check_.done(H5Pset_create_intermediate_group(links_.get(), 1), "no intermediate groups");
    check_.done(H5Pset_char_encoding(links_.get(), H5T_CSET_UTF8), "no UTF-8 names");
  }

  template <typename Integer>
  void attribute(const char* name, hid_t file_type, hid_t memory_type, Integer value) {
    write_attribute(name, file_type, memory_type, &value);
  }

  void attribute(const char* name, const std::string& text) {
    const auto type = check_.id(H5Tcopy(H5T_C_S1), "no string type");
    check_.done(H5Tset_size(type.get(), H5T_VARIABLE), "no variable-length string");
    check_.done(H5Tset_cset(type.get(), H5T_CSET_UTF8), "no UTF-8 string");
    const char* pointer = text.c_str();
    write_attribute(name, type.get(), type.get(), &pointer);
  }

  /// Adds a group with these arrays. Frees each array as soon as it is in the file.
  void arrays(const std::string& group_name, std::vector<NamedArray> arrays) {
    const auto group = check_.id(H5Gcreate2(file_.get(), group_name.c_str(), links_.get(), H5P_DEFAULT, H5P_DEFAULT),
                                 "cannot add group " + group_name);
    for (NamedArray& array : arrays) {
      add_array(group.get(), array);
      freed_bytes_ += array.values.size() * sizeof(float);
      free_memory(array.values);
      if (freed_bytes_ < bytes_to_trim) continue;
      malloc_trim(0);  // without this, the process would keep the memory of the freed arrays
      freed_bytes_ = 0;
    }
  }

  /// Returns the front bytes and the file. No other call may follow.
  std::vector<std::byte> take() {
    check_.done(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "cannot flush");
    const auto bytes = H5Fget_file_image(file_.get(), nullptr, 0);
    if (bytes <= 0) check_.refuse("no image");
    file_ = {};  // closes the file: until then, HDF5 writes to the memory
    memory_.bytes.resize(memory_.front_bytes + static_cast<std::size_t>(bytes));
    return std::move(memory_.bytes);
  }

 private:
  Id create_file() {
    const Id access = hdf5::memory_file_access(check_, FileMemory::increment_bytes);
    H5FD_file_image_callbacks_t callbacks = memory_.callbacks();
    check_.done(H5Pset_file_image_callbacks(access.get(), &callbacks), "no memory callbacks");
    return check_.id(H5Fcreate("checkpoint", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "no file in memory");
  }

  void write_attribute(const char* name, hid_t file_type, hid_t memory_type, const void* value) {
    const auto space = check_.id(H5Screate(H5S_SCALAR), "no scalar space");
    const auto attribute =
        check_.id(H5Acreate2(file_.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), name);
    check_.done(H5Awrite(attribute.get(), memory_type, value), name);
  }

  void add_array(hid_t group, const NamedArray& array) {
    bounds_.check_array(array.name, array.shape);
    std::size_t elements = 1;
    for (const auto extent : array.shape) elements *= static_cast<std::size_t>(extent);
    check(elements == array.values.size(),
          fmt::format("array {} has {} values, its shape {}", array.name, array.values.size(), elements));
    const std::vector<hsize_t> shape(array.shape.begin(), array.shape.end());
    const auto properties = check_.id(H5Pcreate(H5P_DATASET_CREATE), "no data set list");
    check_.done(H5Pset_obj_track_times(properties.get(), false), "no untimed data set");
    if (!array.values.empty() && !shape.empty()) {  // scalars and empty arrays cannot have chunks
      check_.done(H5Pset_chunk(properties.get(), static_cast<int>(shape.size()), chunk_shape(shape).data()),
                  "no chunks");
      check_.done(H5Pset_fletcher32(properties.get()), "no fletcher32");
    }
    const auto space = check_.id(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), array.name);
    const auto data = check_.id(
        H5Dcreate2(group, array.name.c_str(), H5T_IEEE_F32LE, space.get(), links_.get(), properties.get(), H5P_DEFAULT),
        "cannot add array " + array.name);
    check_.done(H5Dwrite(data.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()),
                "cannot fill array " + array.name);
  }

  hdf5::Checker check_{ExitCode::failed, "building a checkpoint"};
  CheckpointBounds bounds_{ExitCode::failed, "building a checkpoint"};
  static constexpr std::size_t bytes_to_trim = std::size_t{16} << 20;

  FileMemory memory_;
  std::size_t freed_bytes_ = 0;  // bytes of freed arrays that malloc_trim has not yet returned to the system
  Id links_;                     // link creation properties: makes HDF5 create intermediate groups
  Id file_;
};

}  // namespace

std::vector<std::byte> build_hdf5_image(CheckpointState state, std::size_t front_bytes) {
  const CheckpointBounds bounds(ExitCode::failed, "building a checkpoint");
  bounds.check_text("model", state.model);
  bounds.check_options(state.options_json);
  bounds.check_text("network", state.network);
  bounds.check_position(state.global_step, state.stream_position);
  for (const auto& [slot, arrays] : state.optimizer) bounds.check_slot(slot);
  const hdf5::Session session;
  Builder builder(value_bytes(state), front_bytes);
  builder.attribute("format_version", H5T_STD_I64LE, H5T_NATIVE_INT64, checkpoint_format_version);
  builder.attribute("model", state.model);
  builder.attribute("global_step", H5T_STD_I64LE, H5T_NATIVE_INT64, state.global_step);
  builder.attribute("seed", H5T_STD_U64LE, H5T_NATIVE_UINT64, state.seed);
  builder.attribute("stream_position", H5T_STD_U64LE, H5T_NATIVE_UINT64, state.stream_position);
  builder.attribute("options", state.options_json);
  builder.attribute("network", state.network);
  builder.arrays("/variables", std::move(state.variables));
  builder.arrays("/moving_averages", std::move(state.moving_averages));
  builder.arrays("/optimizer", {});
  for (auto& [slot, arrays] : state.optimizer) {
    builder.arrays("/optimizer/" + slot, std::move(arrays));
  }
  builder.arrays("/state", std::move(state.buffers));
  return builder.take();
}

std::string checkpoint_library() {
  const hdf5::Session session;  // the object must exist before the first call of HDF5
  unsigned major = 0, minor = 0, patch = 0;
  H5get_libversion(&major, &minor, &patch);
  return fmt::format("HDF5 {}.{}.{}", major, minor, patch);
}

}  // namespace carillon
