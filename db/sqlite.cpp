// The only file that includes sqlite3.h.
namespace versieve::db {}
