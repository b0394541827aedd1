"""The page that shows a store's releases: served live, or written as files. It reads releases only, without a key."""
