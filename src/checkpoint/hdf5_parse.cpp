// Parses the HDF5 image of a checkpoint whose CRC has been checked. The layout is still not taken on trust: names,
// types, ranks and sizes are checked against docs/formats.md and the image's length before anything is allocated.
#include <array>
#include <limits>

#include "src/checkpoint/hdf5_image.h"
#include "src/checkpoint/hdf5_support.h"

namespace carillon {
namespace {

using hdf5::Id;

class Parser {
 public:
  Parser(std::span<const std::byte> image, const std::string& subject)
      : subject_(subject), check_(ExitCode::data, subject), unread_bytes_(image.size()) {
    const auto access = hdf5::memory_file_access(check_, 1 << 16);
    // HDF5 copies the buffer; its interface only lacks the const.
    check_.done(H5Pset_file_image(access.get(), const_cast<std::byte*>(image.data()), image.size()), "no image");
    file_ = check_.id(H5Fopen("checkpoint", H5F_ACC_RDONLY, access.get()), "not an HDF5 image");
  }

  CheckpointState state() {
    const std::int64_t version = checked_version();
    CheckpointState state;
    state.model = text("model");
    state.global_step = integer<std::int64_t>("global_step", H5T_STD_I64LE, H5T_NATIVE_INT64);
    if (state.global_step < 0) refuse("attribute global_step is {}", state.global_step);
    state.seed = integer<std::uint64_t>("seed", H5T_STD_U64LE, H5T_NATIVE_UINT64);
    state.stream_position = integer<std::uint64_t>("stream_position", H5T_STD_U64LE, H5T_NATIVE_UINT64);
    state.options_json = text("options");
    state.variables = arrays(group(file_.get(), "variables").get());
    state.moving_averages = arrays(group(file_.get(), "moving_averages").get());
    const auto slots = group(file_.get(), "optimizer");
    for (const auto& slot : member_names(slots.get(), "/optimizer")) {
      state.optimizer.emplace(slot, arrays(group(slots.get(), slot).get()));
    }
    if (version >= 2) state.states = arrays(group(file_.get(), "state").get());
    return state;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}", subject_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::int64_t checked_version() const {
    const auto found = integer<std::int64_t>("format_version", H5T_STD_I64LE, H5T_NATIVE_INT64);
    if (found > checkpoint_format_version) {
      throw NewerFormat(ExitCode::data,
                        fmt::format("{}: its format_version is {}, this program reads up to {}: use a newer Carillon",
                                    subject_, found, checkpoint_format_version));
    }
    if (found < 1) refuse("its format_version is {}, expected 1 to {}", found, checkpoint_format_version);
    return found;
  }

  Id attribute(const char* name) const {
    if (H5Aexists(file_.get(), name) <= 0) refuse("it has no attribute {}", name);
    auto result = check_.id(H5Aopen(file_.get(), name, H5P_DEFAULT), name);
    const auto space = check_.id(H5Aget_space(result.get()), name);
    if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) refuse("attribute {} is not a scalar", name);
    return result;
  }

  template <typename Integer>
  Integer integer(const char* name, hid_t file_type, hid_t memory_type) const {
    const auto source = attribute(name);
    const auto type = check_.id(H5Aget_type(source.get()), name);
    if (H5Tequal(type.get(), file_type) <= 0) {
      refuse("attribute {} is not a {} 64-bit integer", name,
             std::numeric_limits<Integer>::is_signed ? "signed" : "unsigned");
    }
    Integer value{};
    check_.done(H5Aread(source.get(), memory_type, &value), name);
    return value;
  }

  std::string text(const char* name) const {
    const auto source = attribute(name);
    const auto type = check_.id(H5Aget_type(source.get()), name);
    if (H5Tis_variable_str(type.get()) <= 0) refuse("attribute {} is not a variable-length string", name);
    char* pointer = nullptr;
    check_.done(H5Aread(source.get(), type.get(), &pointer), name);
    const std::string result = pointer == nullptr ? "" : pointer;
    H5free_memory(pointer);
    return result;
  }

  Id group(hid_t parent, const std::string& name) const {
    if (H5Lexists(parent, name.c_str(), H5P_DEFAULT) <= 0) refuse("it has no group {}", name);
    auto result = check_.id(H5Oopen(parent, name.c_str(), H5P_DEFAULT), name);
    if (H5Iget_type(result.get()) != H5I_GROUP) refuse("{} is not a group", name);
    return result;
  }

  std::vector<std::string> member_names(hid_t parent, const std::string& path) const {
    H5G_info_t info{};
    check_.done(H5Gget_info(parent, &info), path);
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      const auto by_index = [&](char* buffer, std::size_t bytes) {
        const auto length = H5Lget_name_by_idx(parent, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, bytes, H5P_DEFAULT);
        if (length < 0) check_.refuse(path);
        return static_cast<std::size_t>(length);
      };
      std::string name(by_index(nullptr, 0), '\0');
      by_index(name.data(), name.size() + 1);
      names.push_back(std::move(name));
    }
    return names;
  }

  std::vector<NamedArray> arrays(hid_t parent) {
    std::vector<NamedArray> result;
    collect(parent, "", 0, result);
    return result;
  }

  void collect(hid_t parent, const std::string& prefix, int depth, std::vector<NamedArray>& result) {
    if (depth > max_name_depth) refuse("groups nest deeper than {} at {}", max_name_depth, prefix);
    for (const auto& member : member_names(parent, prefix)) {
      const auto name = prefix + member;
      const auto object = check_.id(H5Oopen(parent, member.c_str(), H5P_DEFAULT), name);
      switch (H5Iget_type(object.get())) {
        case H5I_GROUP:
          collect(object.get(), name + "/", depth + 1, result);
          break;
        case H5I_DATASET:
          result.push_back(read_array(object.get(), name));
          break;
        default:
          refuse("{} is neither a group nor an array", name);
      }
    }
  }

  NamedArray read_array(hid_t data, const std::string& name) {
    const auto type = check_.id(H5Dget_type(data), name);
    if (H5Tequal(type.get(), H5T_IEEE_F32LE) <= 0) refuse("array {} is not of float32", name);
    const auto space = check_.id(H5Dget_space(data), name);
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank < 0 || rank > max_array_rank)
      refuse("array {} has rank {}, at most {} expected", name, rank, max_array_rank);
    std::array<hsize_t, max_array_rank> extents{};
    check_.done(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), name);
    NamedArray array{.name = name, .shape = {extents.begin(), extents.begin() + rank}, .values = {}};
    array.values.resize(take_elements(array));
    check_.done(H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()),
                "cannot read array " + name);
    return array;
  }

  /// Element count of `array`; all arrays together can't hold more bytes than the image they are in.
  std::size_t take_elements(const NamedArray& array) {
    std::size_t count = 1;
    for (const auto extent : array.shape) {
      const bool fits = extent >= 0 && (extent == 0 || count <= unread_bytes_ / static_cast<std::size_t>(extent));
      if (!fits) refuse("array {} of shape [{}] is larger than the file", array.name, fmt::join(array.shape, ","));
      count *= static_cast<std::size_t>(extent);
    }
    if (count > unread_bytes_ / sizeof(float)) refuse("array {} is larger than the file", array.name);
    unread_bytes_ -= count * sizeof(float);
    return count;
  }

  std::string subject_;
  hdf5::Checker check_;
  std::size_t unread_bytes_;
  Id file_;
};

}  // namespace

CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject) {
  const hdf5::Session session;
  return Parser(image, subject).state();
}

}  // namespace carillon
