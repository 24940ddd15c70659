CREATE TABLE authors (id {serial}, slug {name} NOT NULL, bio {text}, picture {blob}, rev BIGINT NOT NULL DEFAULT 1, UNIQUE (slug));
CREATE TABLE posts (id {serial}, author_id BIGINT NOT NULL, title {text} NOT NULL, content {text} NOT NULL, status {status} NOT NULL DEFAULT 'draft', published_at {moment}, words INTEGER GENERATED ALWAYS AS (length(content)) STORED, rev BIGINT NOT NULL DEFAULT 1, FOREIGN KEY (author_id) REFERENCES authors (id));
CREATE TABLE post_meta (id {serial}, post_id BIGINT NOT NULL, meta_key {name}, meta_value {text}, rev BIGINT NOT NULL DEFAULT 1, FOREIGN KEY (post_id) REFERENCES posts (id) ON DELETE CASCADE);
CREATE TABLE tags (id {serial}, title {name} NOT NULL, rev BIGINT NOT NULL DEFAULT 1);
CREATE TABLE post_tags (post_id BIGINT NOT NULL, tag_id BIGINT NOT NULL, PRIMARY KEY (post_id, tag_id), FOREIGN KEY (post_id) REFERENCES posts (id) ON DELETE CASCADE, FOREIGN KEY (tag_id) REFERENCES tags (id));
CREATE TABLE comments (id {serial}, post_id BIGINT NOT NULL, reply_to BIGINT, said {text} NOT NULL, approved BOOLEAN NOT NULL DEFAULT {false}, rev BIGINT NOT NULL DEFAULT 1, FOREIGN KEY (post_id) REFERENCES posts (id), FOREIGN KEY (reply_to) REFERENCES comments (id));
CREATE TABLE options (name {code} NOT NULL PRIMARY KEY, value {text} NOT NULL, autoload BOOLEAN NOT NULL DEFAULT {true}, rev BIGINT NOT NULL DEFAULT 1);
CREATE VIEW public_posts AS SELECT id, title, published_at FROM posts WHERE published_at IS NOT NULL;
