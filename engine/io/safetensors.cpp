// Reads and writes safetensors files.
namespace versieve::engine {}
