#include "src/onnx/onnx_import.h"

#include <memory>

#include "src/onnx/importer.h"

namespace carillon {
namespace {

/// As Importer::run. A file that cannot be used for images of other sizes than its own is not damaged.
Value run_for_images(const Source& source, const NetworkSettings& settings, Importer& importer) {
  const Extents& shape = source.file.input_shape();
  const auto differs = [&](std::size_t axis, std::int64_t extent) {
    return axis < shape.size() && shape[axis] > 0 && shape[axis] != extent;
  };
  try {
    return importer.run();
  } catch (const Error& error) {
    const bool has_own_size = differs(2, settings.image.height) || differs(3, settings.image.width);
    if (error.code() != ExitCode::data || !has_own_size) throw;
    fail(ExitCode::usage, "{} (the file is for images of {}x{}: --image-size {})", error.what(), shape[2], shape[3],
         shape[2]);
  }
}

}  // namespace

bool is_onnx_file(const std::string& name) { return name.ends_with(".onnx"); }

MakeNetwork onnx_network(const std::filesystem::path& path, const OnnxOptions& options) {
  const auto source = std::make_shared<const Source>(path, options);
  return [source](const NetworkSettings& settings) {
    std::vector<GivenValues> given;
    std::map<std::string, std::string> names;
    std::vector<std::string> notes;
    Network network = make_network(source->file.path().stem().string(), settings, [&](Graph& graph) {
      Importer importer(*source, settings, graph);
      const Value output = run_for_images(*source, settings, importer);
      given = importer.given();
      names = importer.original_names();
      notes = importer.notes();
      return output;
    });
    network.torch_names = std::move(names);
    network.given = std::make_shared<const std::vector<GivenValues>>(std::move(given));
    network.notes = std::move(notes);
    return network;
  };
}

}  // namespace carillon
